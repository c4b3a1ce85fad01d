"""Random kills at random moments: the run goes on, and ends as if nothing had happened."""

import json
import os
import random
import signal
import time
from contextlib import suppress

from test_crash import children_of

ROWS = 200
KILLS = 20
BATCH = 2


def test_twenty_kills_cost_no_row_and_double_none(shop):
    dataset = shop.dataset("a", ROWS)
    out, shop.out = shop.out, shop.folder / "unbroken"
    assert shop.run(shop.config([shop.model()], [dataset]), mode="infer")[0] == 0
    unbroken = shop.file("predictions", "m", "a").read_bytes()
    shop.out = out

    log = shop.folder / "scored"
    model = shop.model(
        type="run_fakes.LoggedModel",
        scored_log=str(log),
        batch_size=BATCH,
        seconds_per_batch=0.1,
    )

    def config(num_worker):
        made = shop.config([model], [dataset], max_num_workers=2, retry=KILLS)
        made["infer"]["partitioner"] = {
            "type": "NumWorkerPartitioner",
            "num_worker": num_worker,
            "min_task_size": 20,
        }
        return made

    chance = random.Random(20)
    kills = 0
    while kills < KILLS:
        reuse = {"reuse": "latest"} if shop.out.is_dir() and list(shop.out.glob("2*")) else {}
        run = shop.start(config(chance.choice([1, 2, 3, 5])), mode="infer", **reuse)
        if not reuse or chance.random() < 0.8:
            shop.wait_until(lambda run=run: run.poll() is not None or children_of(run.pid))
        while kills < KILLS and run.poll() is None:
            time.sleep(chance.uniform(0.0, 0.7))
            if chance.random() < 0.4:
                run.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                kills += 1
                break
            for worker in children_of(run.pid)[:1] if run.poll() is None else ():
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    kills += 1
        output, _ = run.communicate(timeout=120)
        assert "Traceback" not in output
        if run.returncode == 0:
            break
    assert kills >= KILLS // 2, "all was done before it got serious"

    code, output = shop.run(config(4), reuse="latest", workers=True)
    assert code == 0, output
    path = shop.file("predictions", "m", "a")
    assert path.read_bytes() == unbroken
    assert list(json.loads(path.read_bytes())) == [str(i) for i in range(ROWS)]
    assert sorted(os.listdir(path.parent)) == ["a.json", "a.provenance"]
    # Each kill costs the batches in hand at most, of two workers.
    scored = [int(line) for line in log.read_text().split()]
    assert set(scored) == set(range(ROWS))
    assert len(scored) <= ROWS + 2 * BATCH * kills
    assert len(list(shop.out.glob("2*"))) == 1
