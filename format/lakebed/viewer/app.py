"""Addresses and their answers. Blocking work runs in a few threads, unless the client has disconnected."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from lakebed import errors
from lakebed.errors import DatasetHandlerError, FormatError, InvalidInputError, QueryError, StorageError
from lakebed.viewer import diff, media, pictures, points, queries, schema, statistics
from lakebed.viewer.access import Access, failure
from lakebed.viewer.asked import Asked
from lakebed.viewer.cells import cells
from lakebed.viewer.lake import Found, Gone, Lake, Opened

_PAGE = Path(__file__).parent / "web" / "dist"
_MOST_BODY = 1 << 24
_KINDS: dict[type[Exception], tuple[str, int]] = {
    Gone: ("gone", 410),
    QueryError: ("query", 400),
    errors.NotFoundError: ("missing", 404),
    errors.CheckoutError: ("missing", 404),
    DatasetHandlerError: ("missing", 404),
    errors.LimitError: ("limit", 413),
    FormatError: ("damaged", 422),
    errors.ReadOnlyModeError: ("denied", 403),
    errors.LockedException: ("locked", 409),
    StorageError: ("storage", 502),
    errors.LakebedError: ("invalid", 400),
    IndexError: ("missing", 404),
    MemoryError: ("limit", 413),
    ClientDisconnect: ("left", 499),
}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class Server:
    """The request handlers of one lake."""

    def __init__(self, lake: Lake, access: Access) -> None:
        self._lake, self._access = lake, access
        self._answers = queries.Answers(lake)
        self._decoding = anyio.CapacityLimiter(max(2, min(8, os.cpu_count() or 2)))
        self._asking = anyio.CapacityLimiter(2)
        self._files = {path.relative_to(_PAGE).as_posix(): path for path in _PAGE.rglob("*")}

    def routes(self) -> list[Route]:
        """Return the routes."""
        one, sample = "/v1/{number:int}", "{tensor:path}/{row:int}"
        return [
            self._route("/v1/lake", self._lake.listed, is_long=True),
            self._route(f"{one}/meta", lambda opened, _: schema.meta(opened), is_long=True),
            self._route(f"{one}/rows", self._rows, is_kept=True),
            self._route(f"{one}/query", self._query, "POST", is_long=True),
            self._route(f"{one}/image/{sample}", self._image, is_kept=True),
            self._route(f"{one}/array/{sample}", self._array, is_kept=True),
            self._route(
                f"{one}/window/{sample}", lambda *of: pictures.window(self._found(*of), of[1]), is_kept=True
            ),
            self._route(f"{one}/media/{sample}/ticket", self._ticket),
            self._route(f"{one}/media/{sample}", self._media),
            self._route(f"{one}/sound/{sample}", lambda *of: media.sound(self._found(*of)), is_kept=True),
            self._route(f"{one}/stats/{{tensor:path}}", self._stats, is_long=True, is_kept=True),
            self._route(f"{one}/points/{{tensor:path}}", self._points, is_long=True, is_kept=True),
            self._route(f"{one}/found", self._rows_found),
            self._route(f"{one}/ids/{{tensor:path}}", self._ids, is_long=True, is_kept=True),
            self._route(f"{one}/diff", self._diff, is_long=True),
            self._route(f"{one}/views", self._save, "POST", is_long=True),
            Route("/open/{nonce}/{mac}", self._once),
            Route("/{file:path}", self._page),
        ]

    def _route(
        self,
        path: str,
        answer: Callable[..., Any],
        method: str = "GET",
        *,
        is_long: bool = False,
        is_kept: bool = False,
    ) -> Route:
        """Make a route whose answer is computed in a thread, when a thread is free and if the client still waits."""

        async def answered(request: Request) -> Response:
            # Read the body first, because the next message then tells whether the client is gone.
            body = await _body(request)
            given = {**request.query_params, "range": request.headers.get("range")}
            asked = Asked.of(request.path_params, _object(body) if method == "POST" else given)
            request.state.text = asked.text
            async with self._asking if is_long else self._decoding:
                if await request.is_disconnected():
                    raise ClientDisconnect
                return await anyio.to_thread.run_sync(work, request, asked, limiter=anyio.CapacityLimiter(1))

        def work(request: Request, asked: Asked) -> Response:
            if "number" not in request.path_params:
                return _json(answer())
            opened, headers = self._lake.open(asked.number, asked.at), {}
            if is_kept and (opened.is_lasting or asked.at.startswith("id:")):
                whole = f"{opened.version} {request.url.path}?{request.url.query}"
                tag = f'"{hashlib.sha256(whole.encode()).hexdigest()[:32]}"'
                headers = {"etag": tag, "cache-control": "private, max-age=3600", "vary": "authorization"}
                if request.headers.get("if-none-match") == tag:
                    return Response(status_code=304, headers=headers)
            try:
                found = answer(opened, asked)
            except (DatasetHandlerError, FormatError, StorageError):
                self._lake.check(opened)
                raise
            made: Response = found if isinstance(found, Response) else _json(found)
            made.headers.update(headers)
            return made

        return Route(path, answered, methods=[method])

    def _found(self, opened: Opened, asked: Asked) -> Found:
        """Return the tensor and row of a request, or the value of a computed column."""
        if asked.q:
            return queries.located(self._answers.kept(asked), asked.tensor, asked.row)
        return opened, asked.tensor, asked.row

    def _rows(self, opened: Opened, asked: Asked) -> Any:
        if asked.q:
            return queries.rows(self._answers.kept(asked), asked)
        ids = list(range(asked.start, max(asked.start, min(asked.start + asked.count, opened.ds.max_len))))
        names = opened.tensors if asked.tensors is None else asked.tensors
        found = {name: cells(opened.tensor(name), ids) for name in names}
        if any("error" in cell for column in found.values() for cell in column if cell):
            self._lake.check(opened)
        return {"start": asked.start, "ids": ids, "cells": found, "groups": None}

    def _query(self, opened: Opened, asked: Asked) -> Any:
        if asked.text is None:
            raise InvalidInputError("a query is {at, text}, both texts")
        return self._answers.answer(opened, asked.text).told

    def _image(self, opened: Opened, asked: Asked) -> Response:
        content, type_ = pictures.picture(self._found(opened, asked), asked)
        return Response(content, media_type=type_)

    def _array(self, opened: Opened, asked: Asked) -> Response:
        values = pictures.numbers(self._found(opened, asked), asked)
        headers = {"x-shape": json.dumps(list(values.shape)), "x-dtype": values.dtype.str}
        return Response(values.tobytes(), media_type="application/octet-stream", headers=headers)

    def _ticket(self, opened: Opened, asked: Asked) -> Any:
        path = f"/v1/{asked.number}/media/{asked.tensor}/{asked.row}"
        rate = media.frame_rate(self._found(opened, asked))
        return {"ticket": self._access.ticket(path, asked.at, asked.q), "rate": rate}

    def _media(self, opened: Opened, asked: Asked) -> Response:
        """Answer a stored file, or a part of it."""
        file = media.File(self._found(opened, asked))
        headers = {"accept-ranges": "bytes"}
        try:
            part = media.ranged(asked.range, file.size)
        except IndexError:
            headers["content-range"] = f"bytes */{file.size}"
            return failure("range", f"the file has {file.size} bytes", 416, headers)
        if part is None:
            headers["content-length"] = str(file.size)
            return StreamingResponse(media.pieces(file), media_type=file.type, headers=headers)
        headers["content-range"] = f"bytes {part[0]}-{part[1] - 1}/{file.size}"
        return Response(file.read(*part), 206, headers=headers, media_type=file.type)

    def _stats(self, opened: Opened, asked: Asked) -> Any:
        if asked.q:
            return statistics.of_answer(self._answers.kept(asked), asked.tensor)
        return statistics.of_tensor(opened.tensor(asked.tensor), asked.tensor, None)

    def _points(self, opened: Opened, asked: Asked) -> Response:
        values, step, share = points.points(opened.tensor(asked.tensor))
        headers = {"x-axes": str(values.shape[1]), "x-step": str(step), "x-share": f"{share:.4f}"}
        content = np.ascontiguousarray(values, "<f4").tobytes()
        return Response(content, media_type="application/octet-stream", headers=headers)

    def _rows_found(self, opened: Opened, asked: Asked) -> Response:
        answer = self._answers.kept(asked)
        if answer.rows is None or answer.opened is not opened:
            return Response(status_code=204)
        return Response(answer.rows.astype("<i4").tobytes(), media_type="application/octet-stream")

    def _ids(self, opened: Opened, asked: Asked) -> Response:
        found = diff.ids(opened, opened.tensor(asked.tensor))
        if found is None:
            return Response(status_code=204)
        return Response(found.astype("<u8").tobytes(), media_type="application/octet-stream")

    def _diff(self, _: Opened, asked: Asked) -> Any:
        return diff.diff(*(self._lake.open(asked.number, at) for at in (asked.a, asked.b)))

    def _save(self, opened: Opened, asked: Asked) -> Any:
        if asked.name is None or (asked.text is None) == (asked.rows is None):
            raise InvalidInputError("a view is {at, name, text or rows}")
        return {"id": self._answers.save(opened, asked.name, asked.text, asked.rows or ())}

    async def _once(self, request: Request) -> Response:
        """Redirect from a one-time address to the page, with the token in the fragment."""
        if not self._access.opened(**request.path_params):
            raise HTTPException(404)
        shown = request.query_params.get("v1")
        state = "" if shown is None else f"&v1={quote(shown)}"
        return Response(status_code=303, headers={"location": f"../../#token={self._access.token}{state}"})

    async def _page(self, request: Request) -> Response:
        """Return a file of the page; only files in the folders of the page are found."""
        name = request.path_params["file"] or "index.html"
        path = self._files.get(name)
        if path is not None and path.suffix in _TYPES:
            return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})
        if name != "index.html":
            raise HTTPException(404)
        told = "the page of the viewer was not built: run `make viewer` in a checkout, which needs node"
        return Response(told, 503, media_type="text/plain")


def _json(found: Any) -> Response:
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


async def _body(request: Request) -> bytes:
    room = bytearray()
    async for part in request.stream():
        room += part
        if len(room) > _MOST_BODY:
            raise errors.LimitError("the request is too large")
    return bytes(room)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise InvalidInputError("the request is not an object of JSON")
    return found


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an error with the library's message only."""
    if isinstance(error, HTTPException):
        return failure("missing", "there is nothing at this address", error.status_code)
    named = (told for type_, told in _KINDS.items() if isinstance(error, type_))
    kind, status = next(named, ("internal", 500))
    if status == 500:
        return failure(kind, f"the viewer failed: {type(error).__name__}", status)
    message = str(error) or kind
    if not isinstance(error, QueryError):
        return failure(kind, message, status)
    message = message.partition("\n")[0]  # the page itself shows the position of the error
    text = getattr(request.state, "text", None)
    if not text or error.line is None or error.column is None:
        return failure(kind, message, status)
    before = text.split("\n")[: error.line - 1]
    return failure(kind, message, status, position=sum(len(line) + 1 for line in before) + error.column - 1)


def app(lake: Lake, access: Access) -> Any:
    """Return the application for a lake."""
    handlers: Any = dict.fromkeys((HTTPException, *_KINDS, Exception), _failed)
    return Starlette(routes=Server(lake, access).routes(), exception_handlers=handlers)
