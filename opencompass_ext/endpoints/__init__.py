"""OpenAI-compatible HTTP endpoints: where they are, and one way of asking them.

``address`` needs nothing installed; ``posting`` imports ``NEEDED_PACKAGES``.
"""

NEEDED_PACKAGES = ("aiohttp", "anyio", "httpx", "httpx_aiohttp", "tenacity")
"""What asking takes, all of it in the extras ``api`` and ``judge``."""
