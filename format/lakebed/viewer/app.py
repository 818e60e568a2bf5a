"""Addresses and their answers; blocking work is done in a few threads, and not for who has gone away."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from lakebed.errors import (
    CheckoutError,
    DatasetHandlerError,
    FormatError,
    InvalidInputError,
    LakebedError,
    LimitError,
    LockedException,
    NotFoundError,
    QueryError,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.viewer import cells, diff, media, pictures, queries, schema, statistics
from lakebed.viewer.access import Access
from lakebed.viewer.lake import Gone, Lake, Opened

_log = logging.getLogger(__name__)
_PAGE = Path(__file__).parent / "web" / "dist"
_MOST_BODY = 1 << 24
_LONGEST_NAME = 200
_KINDS: tuple[tuple[type[Exception], str, int], ...] = (
    (Gone, "gone", 410),
    (QueryError, "query", 400),
    (NotFoundError, "missing", 404),
    (CheckoutError, "missing", 404),
    (DatasetHandlerError, "missing", 404),
    (LimitError, "limit", 413),
    (FormatError, "damaged", 422),
    (ReadOnlyModeError, "denied", 403),
    (LockedException, "locked", 409),
    (StorageError, "storage", 502),
    (LakebedError, "invalid", 400),
    (IndexError, "missing", 404),
    (MemoryError, "limit", 413),
)
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}

Work = Callable[[], Response]


class Server:
    """The answers of one lake."""

    def __init__(self, lake: Lake, access: Access) -> None:
        self.lake = lake
        self._access = access
        self.answers = queries.Answers(lake)
        self._decoding = anyio.CapacityLimiter(max(2, min(8, os.cpu_count() or 2)))
        self._asking = anyio.CapacityLimiter(2)

    async def worked(self, request: Request, work: Work, *, is_long: bool = False) -> Response:
        """Do blocking work in a thread, once one is free and if the client is still there."""
        if request.method != "POST":
            await request.body()  # behind which it stands whether the client is there
        limiter = self._asking if is_long else self._decoding
        async with limiter:
            if await request.is_disconnected():
                raise ClientDisconnect
            return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    # -- what is asked for -------------------------------------------------------------------------------------------

    def opened(self, request: Request) -> Opened:
        """Return the dataset and version of a request."""
        return self.lake.open(request.path_params["number"], request.query_params.get("at", ""))

    def sample(self, request: Request) -> tuple[Opened, str, int] | NDArray[Any]:
        """Return the tensor and row of a request, or the value of a computed column."""
        name, row = request.path_params["tensor"], request.path_params["row"]
        id_ = request.query_params.get("q")
        if id_:
            return queries.located(self.answers.kept(request.path_params["number"], id_), name, row)
        opened = self.opened(request)
        opened.tensor(name)
        return opened, name, row

    async def answered(
        self,
        request: Request,
        work: Callable[[Opened], Response],
        *,
        is_long: bool = False,
        is_kept: bool = False,
    ) -> Response:
        """Answer about a version; what may be kept is, where the version never changes."""

        def done() -> Response:
            opened = self.opened(request)
            try:
                return self._kept(request, opened, work) if is_kept else work(opened)
            except (DatasetHandlerError, FormatError, StorageError) as error:
                raise self.lake.explained(opened, error) from error

        return await self.worked(request, done, is_long=is_long)

    def _kept(self, request: Request, opened: Opened, work: Callable[[Opened], Response]) -> Response:
        at = request.query_params.get("at", "")
        if not (opened.is_lasting or at.startswith("id:")):
            return work(opened)
        asked = f"{opened.version} {request.url.path}?{request.url.query}"
        tag = f'"{hashlib.sha256(asked.encode()).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "private, max-age=3600", "vary": "authorization"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        answer = work(opened)
        answer.headers.update(headers)
        return answer

    # -- the answers ---------------------------------------------------------------------------------------------

    async def datasets(self, request: Request) -> Response:
        """Answer `Lake`."""
        return await self.worked(request, lambda: _json(self.lake.listed()), is_long=True)

    async def meta(self, request: Request) -> Response:
        """Answer `Meta`."""
        return await self.answered(request, lambda opened: _json(schema.meta(opened)), is_long=True)

    async def rows(self, request: Request) -> Response:
        """Answer `Rows`."""
        start, count = _number(request, "start", 0, 1 << 53), _number(request, "count", 64, cells.MOST_ROWS)
        text, id_ = request.query_params.get("tensors"), request.query_params.get("q")
        names = None if text is None else _names(text)

        def work(opened: Opened) -> Response:
            if id_:
                return _json(queries.rows(self.answers.kept(opened.number, id_), names, start, count))
            ids = list(range(start, max(start, min(start + count, opened.ds.max_len))))
            tensors = {name: opened.tensor(name) for name in (opened.tensors if names is None else names)}
            found = {name: cells.cells(one, schema.kind_of(one), ids) for name, one in tensors.items()}
            if any("error" in cell for column in found.values() for cell in column if cell):
                self.lake.check(opened)
            return _json({"start": start, "ids": ids, "cells": found, "groups": None})

        return await self.answered(request, work, is_kept=True)

    async def query(self, request: Request) -> Response:
        """Answer `Answer`."""
        body = await _body(request)
        at, text = body.get("at", ""), body.get("text")
        if not isinstance(text, str) or not isinstance(at, str):
            raise InvalidInputError("a query is {at, text}, both texts")
        number = request.path_params["number"]

        def work() -> Response:
            try:
                answer = self.answers.answer(self.lake.open(number, at), text)
            except QueryError as error:
                return _failed(error, text)
            return _json({key: value for key, value in answer.told.items() if key != "dataset"})

        return await self.worked(request, work, is_long=True)

    async def image(self, request: Request) -> Response:
        """Answer a picture."""
        wanted = pictures.Wanted(
            _number(request, "w", 0, pictures.LARGEST),
            _number(request, "frame", 0, 1 << 31),
            _float(request, "low"),
            _float(request, "high"),
            _box(request),
        )

        def work(_: Opened) -> Response:
            found = self.sample(request)
            content, type_ = (
                pictures.computed(found, wanted)
                if isinstance(found, np.ndarray)
                else pictures.picture(*found, wanted)
            )
            return Response(content, media_type=type_)

        return await self.answered(request, work, is_kept=True)

    async def array(self, request: Request) -> Response:
        """Answer the numbers of a sample."""
        frame, box = _number(request, "frame", 0, 1 << 31), _box(request)

        def work(_: Opened) -> Response:
            found = self.sample(request)
            values = found if isinstance(found, np.ndarray) else pictures.numbers(*found, frame, box)
            content, dtype = pictures.little(values)
            headers = {"x-shape": json.dumps(list(values.shape)), "x-dtype": dtype}
            return Response(content, media_type="application/octet-stream", headers=headers)

        return await self.answered(request, work, is_kept=True)

    async def media(self, request: Request) -> Response:
        """Answer a stored file, or a part of it."""

        def work(_: Opened) -> Response:
            found = self.sample(request)
            if isinstance(found, np.ndarray):
                raise InvalidInputError("what a query computes is no film or sound")
            file = media.File(*found)
            headers = {"accept-ranges": "bytes"}
            try:
                part = media.ranged(request.headers.get("range"), file.size)
            except IndexError:
                headers["content-range"] = f"bytes */{file.size}"
                told = {"error": {"kind": "range", "message": f"the file has {file.size} bytes"}}
                return JSONResponse(told, 416, headers=headers)
            if part is None:
                headers["content-length"] = str(file.size)
                content = media.pieces(file) if request.method == "GET" else iter(())
                return StreamingResponse(content, media_type=file.type, headers=headers)
            headers["content-range"] = f"bytes {part[0]}-{part[1] - 1}/{file.size}"
            return Response(file.read(*part), 206, headers=headers, media_type=file.type)

        return await self.answered(request, work)

    async def ticket(self, request: Request) -> Response:
        """Answer what opens one film or sound without the token."""
        path = request.scope["path"].removesuffix("/ticket")
        versions, ids = request.query_params.get("at", ""), request.query_params.get("q", "")
        return _json({"ticket": self._access.ticket(path, versions, ids)})

    async def sound(self, request: Request) -> Response:
        """Answer `Sound`."""

        def work(_: Opened) -> Response:
            found = self.sample(request)
            if isinstance(found, np.ndarray):
                raise InvalidInputError("what a query computes is no sound")
            return _json(media.sound(*found))

        return await self.answered(request, work, is_kept=True)

    async def stats(self, request: Request) -> Response:
        """Answer `Stats`."""
        name, id_ = request.path_params["tensor"], request.query_params.get("q")

        def work(opened: Opened) -> Response:
            if not id_:
                return _json(statistics.of_tensor(opened.tensor(name), name, None))
            answer = self.answers.kept(opened.number, id_)
            if name in answer.sources:
                return _json(
                    statistics.of_tensor(answer.opened.tensor(answer.sources[name]), name, answer.rows)
                )
            return _json(statistics.of_computed(answer, name))

        return await self.answered(request, work, is_long=True, is_kept=True)

    async def diff(self, request: Request) -> Response:
        """Answer `Diff`."""
        number = request.path_params["number"]
        a, b = (request.query_params.get(name, "") for name in "ab")
        work = lambda: _json(diff.diff(self.lake.open(number, a), self.lake.open(number, b)))  # noqa: E731
        return await self.worked(request, work, is_long=True)

    async def views(self, request: Request) -> Response:
        """Save a view."""
        body = await _body(request)
        number, at, name = request.path_params["number"], body.get("at", ""), body.get("name")
        text, rows = body.get("text"), body.get("rows")
        if not isinstance(at, str) or not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
            raise InvalidInputError("a view is {at, name, text or rows}, at and name texts")
        is_rows = isinstance(rows, list) and all(type(row) is int and row >= 0 for row in rows)
        if isinstance(text, str) == is_rows:
            raise InvalidInputError("a view is of a text or of rows, which are numbers")

        def work() -> Response:
            opened = self.lake.open(number, at)
            return _json({"id": self.answers.save(opened, name, text, rows or ())})

        return await self.worked(request, work, is_long=True)

    async def once(self, request: Request) -> Response:
        """Lead to the page, with the token in the fragment, from an address that works once."""
        if not self._access.opened(request.path_params["nonce"], request.path_params["mac"]):
            raise HTTPException(404)
        shown = request.query_params.get("v1")
        state = "" if shown is None else f"&v1={quote(shown)}"
        return Response(status_code=303, headers={"location": f"../../#token={self._access.token}{state}"})

    async def page(self, request: Request) -> Response:
        """Return a file of the page."""
        name = request.path_params.get("file") or "index.html"
        path = _PAGE / name
        if (
            not path.is_file()
            or not path.resolve().is_relative_to(_PAGE.resolve())
            or path.suffix not in _TYPES
        ):
            if name == "index.html":
                told = (
                    "the page of the viewer was not built: run `make viewer` in a checkout, which needs node"
                )
                return Response(told, 503, media_type="text/plain")
            raise HTTPException(404)
        return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})


def _json(found: Any) -> Response:
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def _number(request: Request, name: str, default: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) > high:
        raise InvalidInputError(f"{name} is a number from 0 to {high}")
    return int(text)


def _float(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not abs(found) < 1e300:
        raise InvalidInputError(f"{name} is a number")
    return found


def _box(request: Request) -> tuple[int, int, int, int] | None:
    text = request.query_params.get("box")
    if not text:
        return None
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidInputError("box is left,top,width,height in pixels")
    left, top, width, height = map(int, parts)
    return left, top, width, height


def _names(text: str) -> list[str]:
    """Return the names of a list, each once: a comma in a name is written with a backslash before it."""
    parts = re.findall(r"((?:[^,\\]|\\.)+)(?:,|$)", text, re.DOTALL)
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts))


async def _body(request: Request) -> dict[str, Any]:
    room = bytearray()
    async for part in request.stream():
        room += part
        if len(room) > _MOST_BODY:
            raise LimitError("the request is too large")
    try:
        found = json.loads(room)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("the request is no JSON") from error
    if not isinstance(found, dict):
        raise InvalidInputError("the request is no object of JSON")
    return found


def _failed(error: Exception, text: str = "") -> Response:
    """Return an error as `Failure` of types.ts: what the library says of it, and nothing else."""
    for type_, kind, status in _KINDS:
        if isinstance(error, type_):
            told: dict[str, Any] = {"kind": kind, "message": str(error) or kind}
            if isinstance(error, QueryError):
                told["message"] = str(error).partition("\n")[0]  # the page marks the place itself
                if text and error.line is not None and error.column is not None:
                    before = text.split("\n")[: error.line - 1]
                    told["position"] = sum(len(line) + 1 for line in before) + error.column - 1
            return JSONResponse({"error": told}, status)
    _log.error("a request failed", exc_info=error)
    return JSONResponse(
        {"error": {"kind": "internal", "message": f"the viewer failed: {type(error).__name__}"}}, 500
    )


def app(lake: Lake, access: Access) -> Any:
    """Return the application for a lake."""
    server = Server(lake, access)

    def route(path: str, answer: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
        @functools.wraps(answer)
        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except (HTTPException, ClientDisconnect):
                raise
            except Exception as error:  # noqa: BLE001 - each becomes an answer
                return _failed(error)

        return Route(path, answered, methods=[method])

    async def missing(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return JSONResponse(
            {"error": {"kind": "missing", "message": "there is nothing at this address"}}, status
        )

    async def left(_: Request, __: Exception) -> Response:
        return Response(status_code=499)

    one, sample = "/v1/{number:int}", "{tensor:path}/{row:int}"
    routes = [
        route("/v1/lake", server.datasets),
        route(f"{one}/meta", server.meta),
        route(f"{one}/rows", server.rows),
        route(f"{one}/query", server.query, "POST"),
        route(f"{one}/image/{sample}", server.image),
        route(f"{one}/array/{sample}", server.array),
        route(f"{one}/media/{sample}/ticket", server.ticket),
        route(f"{one}/media/{sample}", server.media),
        route(f"{one}/sound/{sample}", server.sound),
        route(f"{one}/stats/{{tensor:path}}", server.stats),
        route(f"{one}/diff", server.diff),
        route(f"{one}/views", server.views, "POST"),
        route("/open/{nonce}/{mac}", server.once),
        route("/", server.page),
        route("/{file:path}", server.page),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: missing, ClientDisconnect: left})
