"""Addresses and their answers; blocking work is done in a few threads, and not for who has gone away."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
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
from lakebed.viewer import cells, pictures, queries, schema
from lakebed.viewer.lake import Gone, Lake, Opened

_PAGE = Path(__file__).parent / "web" / "dist"
_MOST_BODY = 1 << 24
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
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}

Work = Callable[[], Response]


class Server:
    """The answers of one lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.answers = queries.Answers(lake)
        self._decoding = anyio.CapacityLimiter(max(2, min(8, os.cpu_count() or 2)))
        self._asking = anyio.CapacityLimiter(2)

    async def worked(self, request: Request, work: Work, *, is_long: bool = False) -> Response:
        """Do blocking work in a thread, once one is free and if the client is still there."""
        limiter = self._asking if is_long else self._decoding
        async with limiter:
            if await request.is_disconnected():
                raise ClientDisconnect
            return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    # -- what is asked for -------------------------------------------------------------------------------------------

    def opened(self, request: Request) -> Opened:
        """Return the dataset and version of a request."""
        return self.lake.open(request.path_params["number"], request.query_params.get("at", ""))

    def kept(self, request: Request, opened: Opened, make: Callable[[], Response]) -> Response:
        """Return an answer that may be kept where its version is named by id, or never changes."""
        at = request.query_params.get("at", "")
        if not (opened.is_lasting or at.startswith("id:")):
            return make()
        asked = f"{opened.version} {request.url.path}?{request.url.query}"
        tag = f'"{hashlib.sha256(asked.encode()).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "private, max-age=86400", "vary": "authorization"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        answer = make()
        if answer.status_code == 200:
            answer.headers.update(headers)
        return answer

    async def lake_(self, request: Request) -> Response:
        return await self.worked(request, lambda: _json(self.lake.listed()), is_long=True)

    async def meta(self, request: Request) -> Response:
        return await self.worked(request, lambda: _json(schema.meta(self.opened(request))), is_long=True)

    async def rows(self, request: Request) -> Response:
        start = _number(request, "start", 0, 0, 1 << 53)
        count = _number(request, "count", 64, 0, cells.MOST_ROWS)
        wanted = request.query_params.get("tensors")
        id_ = request.query_params.get("q")

        def work() -> Response:
            opened = self.opened(request)
            return self.kept(request, opened, lambda: _json(self._rows(opened, start, count, wanted, id_)))

        return await self.worked(request, work)

    def _rows(self, opened: Opened, start: int, count: int, wanted: str | None, id_: str | None) -> dict[str, Any]:
        metas = schema.tensor_metas(opened)
        if not id_:
            names = [m["name"] for m in metas] if wanted is None else _names(wanted, {m["name"] for m in metas})
            ids = list(range(start, min(start + count, opened.ds.max_len)))
            return {"start": start, "ids": ids, "cells": cells.rows(opened, metas, names, ids), "groups": None}
        answer = self.answers.kept(opened, id_)
        places = range(start, max(start, min(start + count, answer.told["rows"])))
        columns = {one["name"]: one for one in answer.told["columns"]}
        names = list(columns) if wanted is None else _names(wanted, {*columns, *opened.tensors})
        ids = [-1] * len(places) if answer.rows is None else answer.rows[places.start : places.stop].tolist()
        known = {one["name"]: one for one in metas}
        stored = [name for name in names if known.get(name) is not None and columns.get(name, known[name]) is known[name]]
        found = cells.rows(answer.opened, metas, [name for name in stored if answer.rows is not None], ids)
        for name in names:
            if name not in found:
                found[name] = queries.cells(answer, name, places)
        groups = None
        if answer.starts is not None:
            groups = (np.searchsorted(answer.starts, np.asarray(places), side="right") - 1).tolist()
        return {"start": start, "ids": ids, "cells": {name: found[name] for name in names}, "groups": groups}

    async def query(self, request: Request) -> Response:
        body = await _body(request)
        at, text = body.get("at") or "", body.get("text")
        if not isinstance(text, str) or not isinstance(at, str):
            raise InvalidInputError("a query is {at, text}, both texts")
        number = request.path_params["number"]

        def work() -> Response:
            return _json(self.answers.answer(self.lake.open(number, at), text).told)

        return await self.worked(request, work, is_long=True)

    async def image(self, request: Request) -> Response:
        wanted = pictures.Wanted(
            _number(request, "w", 0, 0, 16_383),
            _number(request, "frame", 0, 0, 1 << 31),
            _float(request, "low"),
            _float(request, "high"),
            _box(request),
        )
        name, row = request.path_params["tensor"], request.path_params["row"]

        def work() -> Response:
            opened = self.opened(request)

            def make() -> Response:
                opened.tensor(name)
                kind = next(one["kind"] for one in schema.tensor_metas(opened) if one["name"] == name)
                content, type_ = pictures.picture(opened, name, kind, row, wanted)
                return Response(content, media_type=type_)

            return self.kept(request, opened, make)

        return await self.worked(request, work)

    async def page(self, request: Request) -> Response:
        """Return a file of the page."""
        name = request.path_params.get("file") or "index.html"
        path = _PAGE / name
        if not path.is_file() or not path.resolve().is_relative_to(_PAGE.resolve()) or path.suffix not in _TYPES:
            if name == "index.html":
                told = "the page of the viewer was not built: run `make viewer` in a checkout, which needs node"
                return Response(told, 503, media_type="text/plain")
            raise HTTPException(404)
        lasting = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": lasting})


def _json(found: Any) -> Response:
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def _number(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 20 or not low <= int(text) <= high:
        raise InvalidInputError(f"{name} is a number from {low} to {high}")
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


def _names(text: str, known: set[str]) -> list[str]:
    """Return the tensors that are named, each once; commas are part of no name, as they stand between them."""
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise NotFoundError(f"there is no tensor {unknown[0]!r:.200} in this version")
    return names


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


def _failed(error: Exception) -> Response:
    """Return an error as `Failure` of types.ts: what the library says of it, and nothing else."""
    for type_, kind, status in _KINDS:
        if isinstance(error, type_):
            told: dict[str, Any] = {"kind": kind, "message": str(error) or kind}
            if isinstance(error, QueryError) and error.line is not None and error.column is not None:
                told |= {"line": error.line, "column": error.column}
            return JSONResponse({"error": told}, status)
    return JSONResponse({"error": {"kind": "internal", "message": f"the viewer failed: {type(error).__name__}"}}, 500)


def app(lake: Lake) -> Any:
    """Return the application for a lake."""
    server = Server(lake)

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

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return JSONResponse({"error": {"kind": "missing", "message": "there is nothing at this address"}}, status)

    async def left(request: Request, error: Exception) -> Response:
        return Response(status_code=499)

    one = "/v1/{number:int}"
    routes = [
        route("/v1/lake", server.lake_),
        route(f"{one}/meta", server.meta),
        route(f"{one}/rows", server.rows),
        route(f"{one}/query", server.query, "POST"),
        route(f"{one}/image/{{tensor:path}}/{{row:int}}", server.image),
        route("/", server.page),
        route("/{file:path}", server.page),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: missing, ClientDisconnect: left})
