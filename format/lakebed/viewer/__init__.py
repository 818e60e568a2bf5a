"""The viewer: a process of its own that serves a page and what it shows of datasets (docs/design/049-viewer.md).

It reads by what users of the library have, and writes nothing but saved views. Starlette and uvicorn are imported here
only; ``web`` has the page.
"""
