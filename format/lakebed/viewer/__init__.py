"""The viewer: a separate process that serves a page and its data (docs/design/049-viewer.md).

It reads through the public names of the library, and writes only saved views. Starlette and uvicorn are imported only
here; the page is in ``web``.
"""
