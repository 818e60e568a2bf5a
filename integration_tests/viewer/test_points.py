"""Point clouds, meshes and boxes in space beside the values of a row."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import laspy
import numpy as np
import pytest

import lakebed
from integration_tests.viewer.bucket import serving
from integration_tests.viewer.conftest import Served, state, until
from integration_tests.viewer.test_static import write

pytestmark = pytest.mark.viewer
CUBE = np.array([[x, y, z] for z in (0, 2) for y in (0, 2) for x in (0, 2)], np.float32)
SIDES = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
FRONT = [0, 0, 1, 0, 0]  # seen along the y axis: x to the right, z upwards


def las(places: np.ndarray[Any, Any], colour: tuple[int, int, int]) -> bytes:
    """A cloud far from the origin, where numbers of 32 bits are coarse."""
    header = laspy.LasHeader(point_format=2, version="1.2")
    header.offsets, header.scales = [4e6, 5e6, 0], [0.001] * 3
    cloud = laspy.LasData(header)
    cloud.x, cloud.y, cloud.z = (places + np.array([4e6, 5e6, 0])).T
    cloud.red, cloud.green, cloud.blue = (np.full(len(places), 257 * one) for one in colour)
    out = io.BytesIO()
    cloud.write(out)
    return out.getvalue()


def ply(form: str) -> bytes:
    """A red cube, its lower half in text or bytes."""
    head = f"ply\nformat {form} 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty float z\n"
    head += "property uchar red\nproperty uchar green\nproperty uchar blue\n"
    head += "element face 6\nproperty list uchar int vertex_indices\nend_header\n"
    if form == "ascii":
        rows = [f"{x} {y} {z} 250 20 20" for x, y, z in CUBE] + [
            f"4 {' '.join(map(str, one))}" for one in SIDES
        ]
        return (head + "\n".join(rows) + "\n").encode()
    vertices = np.zeros(8, [("place", "<f4", 3), ("colour", "u1", 3)])
    vertices["place"], vertices["colour"] = CUBE, (250, 20, 20)
    faces = np.array([(4, one) for one in SIDES], [("count", "u1"), ("corners", "<i4", 4)])
    return head.encode() + vertices.tobytes() + faces.tobytes()


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spaces")
    plate = np.stack(np.meshgrid(np.linspace(0, 4, 60), [0], np.linspace(0, 2, 30)), -1).reshape(-1, 3)
    clouds = lakebed.empty(root / "clouds")
    clouds.create_tensor("scan", htype="point_cloud", sample_compression="las")
    clouds.create_tensor("box", htype="bbox.3d")
    clouds.create_tensor("kind", htype="class_label", class_names=["car", "tree"])
    for colour in ((0, 200, 0), (0, 0, 200)):
        boxes = np.array([[1, 0, 1, 2, 1, 1, 0, 0], [3, 0, 1, 1, 1, 1, 0.4, 0]], np.float32)
        boxes[:, :3] += [4e6, 5e6, 0]
        file = lakebed.read(las(plate, colour), compression="las")
        clouds.append({"scan": file, "box": boxes, "kind": np.array([0, 1], np.uint32)})
    clouds.commit()
    meshes = lakebed.empty(root / "meshes")
    meshes.create_tensor("mesh", htype="mesh", sample_compression="ply")
    for form in ("ascii", "binary_little_endian"):
        meshes.mesh.append(lakebed.read(ply(form), compression="ply"))
    meshes.commit()
    raw = lakebed.empty(root / "raw")
    raw.create_tensor("points", htype="point_cloud", dtype="float32", sample_compression=None)
    raw.points.append(np.hstack([plate, np.full((len(plate), 3), [0.0, 1.0, 1.0])]).astype(np.float32))
    raw.create_tensor("boxes", htype="bbox.3d")
    raw.boxes.append(np.array([[1, 0, 1, 2, 1, 1, 0, 0]], np.float32))
    raw.commit()
    return root


@pytest.fixture(scope="module")
def addresses(spaces: Path) -> Iterator[Callable[..., tuple[str, str]]]:
    """A function that tells where a dataset is shown, with a server and without."""
    write(str(spaces), "--static", str(spaces / "page"))
    server = Served(spaces)
    with serving(spaces) as bucket:
        names = [one["name"] for one in json.loads((spaces / "page" / "lake.json").read_text())["datasets"]]

        def told(name: str, **given: Any) -> tuple[str, str]:
            bare = json.dumps({"dataset": names.index(name), **given})
            return (
                server.at(dataset=server.number(name), **given),
                f"{bucket.url}/page/index.html#v1={bare}",
            )

        yield told
    server.close()


PIXELS = """() => {
    const canvas = document.querySelector(".space canvas");
    const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = { left: width, right: 0, top: height, bottom: 0, count: 0, width, height, colours: {} };
    for (let at = 0; at < width * height; at++) {
        if (data[4 * at + 3] < 255) continue;
        const [x, y] = [at % width, Math.floor(at / width)];
        found.count++;
        [found.left, found.right] = [Math.min(found.left, x), Math.max(found.right, x)];
        [found.top, found.bottom] = [Math.min(found.top, y), Math.max(found.bottom, y)];
        const colour = data.slice(4 * at, 4 * at + 3).join();
        found.colours[colour] = (found.colours[colour] ?? 0) + 1;
    }
    return found;
}"""


def seen(page: Any, words: str) -> dict[str, Any]:
    page.locator(".space", has_text=words).wait_for()
    until(page, f"({PIXELS})().count > 0")
    page.wait_for_timeout(200)
    return dict(page.evaluate(PIXELS))


def test_a_cloud_of_a_file_with_its_boxes(
    addresses: Callable[..., tuple[str, str]], open_page: Callable[..., Any]
) -> None:
    found = []
    for address in addresses("clouds", row=1, orbit=FRONT, hidden=["box"]):
        page = open_page(address, refused=True)
        found.append(seen(page, "1,800 points"))
        assert set(found[-1]["colours"]) == {"0,0,200"}
        page.get_by_role("button", name="box: 2 boxes").click()
        until(page, f"Object.keys(({PIXELS})().colours).length > 2")
        assert state(page).get("hidden", []) == []
    assert found[0] == found[1]
    across, down = (found[0][end] - found[0][begin] for begin, end in (("left", "right"), ("top", "bottom")))
    assert across / down == pytest.approx(2, rel=0.03), (
        "4 wide and 2 high: no digit is lost far from the origin"
    )


EDGES = [*((at, (at + 1) % 4) for at in range(4)), *((at + 4, (at + 1) % 4 + 4) for at in range(4))]
EDGES += [(at, at + 4) for at in range(4)]


def edges(box: np.ndarray[Any, Any], orbit: list[float], width: int, height: int) -> np.ndarray[Any, Any]:
    """Return the pixel in the middle of each edge of a box over the plate, by the mathematics of an orbit."""
    centre, size, angle = box[:3], box[3:6], box[6]
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    corners = np.array([[*corner, z] for z in (-0.5, 0.5) for corner in corners]) * size
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    places = np.hstack([corners[:, :2] @ turned.T, corners[:, 2:]]) + centre - [2, 0, 1]
    (turn, tilt, zoom, x, y), radius = orbit, np.sqrt(5)
    across = np.array([np.cos(turn), np.sin(turn), 0])
    down = np.array([np.sin(turn) * np.sin(tilt), -np.cos(turn) * np.sin(tilt), -np.cos(tilt)])
    scale = zoom * min(width, height) / (2 * radius)
    pixels = np.stack(
        [width * (0.5 + x) + scale * places @ across, height * (0.5 + y) + scale * places @ down], 1
    )
    return np.array([(pixels[a] + pixels[b]) / 2 for a, b in EDGES])


NEAR = """([places, plate]) => {
    const canvas = document.querySelector(".space canvas");
    const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return places.map(([x, y]) => {
        const colours = new Set();
        for (let dy = -2; dy <= 2; dy++) for (let dx = -2; dx <= 2; dx++) {
            const at = 4 * ((Math.round(y) + dy) * width + Math.round(x) + dx);
            if (data[at + 3] > 60) colours.add(data.slice(at, at + 3).join());
        }
        colours.delete(plate);
        return [...colours].length;
    });
}"""


def test_boxes_in_space_stand_where_they_are_and_turn_with_the_cloud(
    addresses: Callable[..., tuple[str, str]], open_page: Callable[..., Any]
) -> None:
    boxes = np.array([[1, 0, 1, 2, 1, 1, 0], [3, 0, 1, 1, 1, 1, 0.4]])
    for address in addresses("clouds", row=1, orbit=[0.5, 0.4, 0.8, 0, 0]):
        page = open_page(address, refused=True)
        seen(page, "1,800 points")
        page.get_by_role("button", name="box: 2 boxes").wait_for()

        def stand(page: Any = page) -> list[bool]:
            width, height = page.evaluate(
                "(({ width, height }) => [width, height])(document.querySelector('.space canvas'))"
            )
            places = np.vstack([edges(box, state(page)["orbit"], width, height) for box in boxes])
            return [count > 0 for count in page.evaluate(NEAR, [places.tolist(), "0,0,200"])]

        page.wait_for_timeout(300)
        assert all(stand()), "the middle of each of 24 edges is drawn"
        box = page.locator(".space").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + 290, box["y"] + 230, steps=3)
        page.mouse.up()
        until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).orbit[0] !== 0.5")
        page.wait_for_timeout(500)
        assert abs(state(page)["orbit"][0] - 0.5) > 0.3
        assert all(stand()), "edges turn with the cloud"
        page.get_by_role("button", name="box: 2 boxes").click()
        until(page, f"Object.keys(({PIXELS})().colours).length === 1")
        assert not any(stand())


def test_a_mesh_is_turned_and_the_address_follows(
    addresses: Callable[..., tuple[str, str]], open_page: Callable[..., Any]
) -> None:
    found = {}
    for row in (0, 1):
        for at, address in enumerate(addresses("meshes", row=row, orbit=FRONT)):
            page = open_page(address, refused=True)
            found[row, at] = seen(page, "8 vertices, 12 triangles")
    assert found[0, 0] == found[0, 1] == found[1, 0] == found[1, 1], (
        "text and bytes, with a server and without"
    )
    square = found[0, 0]
    assert square["right"] - square["left"] == pytest.approx(square["bottom"] - square["top"], abs=2)
    assert set(square["colours"]) == {"250,20,20"}, "seen from the front, one side is lit in full"
    page.locator(".space [role=application]").focus()
    page.keyboard.press("Shift+D")
    until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).orbit?.[0] === 0.1")
    box = page.locator(".space").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 260, steps=3)
    page.mouse.up()
    until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).orbit[1] > 0.3")
    turned = page.evaluate(PIXELS)
    assert len(turned["colours"]) == 3, "three sides are in sight, each lit in its own way"
    page.mouse.wheel(0, 300)
    until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).orbit[2] < 0.9")
    assert page.evaluate(PIXELS)["count"] < turned["count"]


def test_points_of_an_array(addresses: Callable[..., tuple[str, str]], open_page: Callable[..., Any]) -> None:
    for address in addresses("raw", row=0, orbit=FRONT, hidden=["boxes"]):
        page = open_page(address, refused=True)
        assert set(seen(page, "1,800 points")["colours"]) == {"0,255,255"}


def test_a_damaged_file_costs_its_view_only(
    spaces: Path, tmp_path: Path, open_page: Callable[..., Any], serve: Callable[..., Served]
) -> None:
    ds = lakebed.empty(tmp_path / "bad")
    ds.create_tensor("mesh", htype="mesh", sample_compression="ply")
    ds.mesh.append(lakebed.read(ply("binary_little_endian"), compression="ply"))
    ds.create_tensor("name", htype="text")
    ds.name.append("the name of the mesh")
    ds.commit()
    served = serve(tmp_path / "bad")
    page = open_page(served.at(dataset=0, row=0))
    page.route(
        "**/media/mesh/0*", lambda route: route.fulfill(body=ply("ascii").replace(b"4 0 1 3 2", b"4 0 1 3 9"))
    )
    page.reload()
    page.locator(".space", has_text="corners that are no vertices").wait_for()
    page.get_by_label("Values").get_by_text("the name of the mesh").wait_for()
