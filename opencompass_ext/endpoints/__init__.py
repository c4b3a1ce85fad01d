"""OpenAI-compatible HTTP endpoints: where they are, and one way of asking them.

``address`` needs nothing installed; ``posting`` imports httpx, tenacity and anyio.
"""
