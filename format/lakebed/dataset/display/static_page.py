"""The viewer as static files for any web server or bucket: the browser itself reads the datasets."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from lakebed.dataset.listing import datasets
from lakebed.errors import InvalidInputError
from lakebed.storage.url import parse

_PAGE = Path(__file__).parents[2] / "viewer" / "web" / "dist"
_LISTING = "lake.json"
_BUCKETS = {
    "s3": "https://{bucket}.s3.amazonaws.com/{key}",
    "gs": "https://storage.googleapis.com/{bucket}/{key}",
    "gcs": "https://storage.googleapis.com/{bucket}/{key}",
}
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; media-src blob:; connect-src 'self'{origin}; base-uri 'none'; form-action 'none'"
)


def write_page(path: str, out: Path, address: str | None = None) -> str:
    """Write the page into a folder and return the address at which it finds the data.

    Parameters
    ----------
    path
        Address of a dataset, or of a folder of datasets.
    out
        Folder of the page; files of the same names are replaced.
    address
        Address at which browsers can read ``path``: absolute, or relative to the page. None derives it for local paths,
        S3 and GCS.

    Raises
    ------
    InvalidInputError
        If no dataset exists at the path, or ``address`` is None and cannot be derived.
    """
    names = [found["path"] for found in datasets(parse(path), ".")]
    if not names:
        raise InvalidInputError(f"{path} holds no dataset")
    base = (address or _address(path, out)).rstrip("/")
    url = urlsplit(base)
    origin = f" {url.scheme}://{url.netloc}" if url.netloc else ""
    listed = [{"name": name, "address": base if name == "." else f"{base}/{quote(name)}"} for name in names]
    (out / "assets").mkdir(parents=True, exist_ok=True)
    for file in _PAGE.rglob("*.*"):
        (out / file.relative_to(_PAGE)).write_bytes(file.read_bytes())
    title = path.rstrip("/").rpartition("/")[2] or path
    if listed[0]["name"] == ".":
        listed[0]["name"] = title
    (out / _LISTING).write_text(json.dumps({"title": title, "datasets": listed}, indent=2), encoding="utf-8")
    policy = html.escape(_POLICY.format(origin=origin))
    meta = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}" />\n'
        f'    <meta name="lakebed-lake" content="{_LISTING}" />'
    )
    page = (out / "index.html").read_text(encoding="utf-8")
    text = page.replace('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {meta}', 1)
    (out / "index.html").write_text(text, encoding="utf-8")
    return base


def _address(path: str, out: Path) -> str:
    """Return the address at which browsers find a place."""
    location = parse(path)
    if location.scheme == "file":
        return quote(os.path.relpath(location.path, out)).replace("%5C", "/")
    if location.scheme in ("http", "https"):
        return path
    if location.scheme in _BUCKETS:
        bucket, _, key = location.path.partition("/")
        return _BUCKETS[location.scheme].format(bucket=bucket, key=quote(key))
    raise InvalidInputError(
        f"{path}: pass --address: the https address at which browsers find it, absolute or relative to the page"
    )


CORS = """A page of another origin may read a bucket once its rules allow it; put the page's origin for the *:

S3      aws s3api put-bucket-cors --bucket BUCKET --cors-configuration '{"CORSRules": [{"AllowedOrigins": ["*"],
        "AllowedMethods": ["GET", "HEAD"], "AllowedHeaders": ["range"], "ExposeHeaders": ["Content-Range"]}]}'
GCS     gcloud storage buckets update gs://BUCKET --cors-file=FILE, where FILE holds
        [{"origin": ["*"], "method": ["GET", "HEAD"], "responseHeader": ["Content-Range", "Range"]}]
Azure   az storage cors add --services b --origins '*' --methods GET HEAD --allowed-headers range
        --exposed-headers Content-Range --max-age 3600 --account-name ACCOUNT"""
