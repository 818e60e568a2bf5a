import { describe, expect, it } from "vitest";
import { cornersOf } from "./boxes";
import { cloudFrom, cloudOf } from "./files";
import { cleared, extent, frameOf, matrixOf, orbited, packed, points, triangles } from "./raster";

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
const HEAD = "ply\nformat ascii 1.0\nelement vertex 3\nproperty double x\nproperty float y\nproperty float z\nelement face 1\nproperty list uchar int vertex_index\nend_header\n";

function las(count: number, length = 26): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(227 + count * length);
  bytes.set(bytesOf("LASF"));
  const view = new DataView(bytes.buffer);
  view.setUint8(25, 2);
  view.setUint32(96, 227, true);
  view.setUint8(104, 2);
  view.setUint16(105, length, true);
  view.setUint32(107, count, true);
  [131, 139, 147].forEach((at) => view.setFloat64(at, 0.5, true));
  view.setFloat64(155, 1000, true);
  for (let at = 0; at < count; at += 1) {
    view.setInt32(227 + at * length, 10 + 2 * at, true);
    view.setUint16(227 + at * length + 20, 65_535, true);
  }
  return bytes;
}

describe("files", () => {
  it("of PLY", () => {
    const found = cloudOf(bytesOf(`${HEAD}1000000.25 0 0\n1000001.25 0 0 1000000.25 1 0\n3 0 1 2\n`), "ply");
    expect([...found.places]).toEqual([0, 0, 0, 1, 0, 0, 0, 1, 0]);
    expect(found.origin).toEqual([1000000.25, 0, 0]);
    expect([...found.corners!]).toEqual([0, 1, 2]);
    expect(found.colours).toBe(null);
  });

  it("of LAS, in the colours and the scale of the file", () => {
    const found = cloudOf(las(3), "las");
    expect([...found.places]).toEqual([0, 0, 0, 1, 0, 0, 2, 0, 0]);
    expect(found.origin[0]).toBe(1005);
    expect([...found.colours!]).toEqual(new Array(3).fill(packed(255, 0, 0)));
  });

  it.each([
    ["no header", bytesOf("nothing"), "ply", "header"],
    ["an end too soon", bytesOf(`${HEAD}1 0 0\n1 0 0\n`), "ply", "ends before"],
    ["corners beyond the vertices", bytesOf(`${HEAD}0 0 0 1 0 0 0 1 0\n3 0 1 3\n`), "ply", "corners"],
    ["more vertices than bytes", bytesOf(HEAD.replace("vertex 3", "vertex 19999999")), "ply", "ends before"],
    ["too many vertices", bytesOf(HEAD.replace("vertex 3", "vertex 99999999")), "ply", "too many"],
    ["a count below nothing", bytesOf(HEAD.replace("vertex 3", "vertex -3")), "ply", "damaged"],
    ["an unknown type", bytesOf(HEAD.replace("double", "toString")), "ply", "type"],
    ["points beyond the end", las(3).slice(0, 260), "las", "ends before"],
    ["records that are too short", las(3, 22), "las", "ends before"],
    ["another format", new Uint8Array(100), "stl", "not drawn"],
  ])("with %s are refused", (_, bytes, format, words) => {
    expect(() => cloudOf(bytes, format)).toThrow(words);
  });

  it("of damaged bytes end in errors of their own", () => {
    const whole = [bytesOf(`${HEAD}1 0 0 1 0 0 1 1 0\n3 0 1 2\n`), bytesOf(HEAD.replace("ascii", "binary_little_endian") + "\0".repeat(61)), las(5)];
    for (let run = 0; run < 3000; run += 1) {
      const bytes = whole[run % 3]!.slice(0, run % 7 ? undefined : run % 200);
      for (let at = run % 4; at >= 0 && bytes.length; at -= 1) bytes[(run * 7919 + at * 104_729) % bytes.length] = (run * 31 + at) % 256;
      try {
        cloudOf(bytes, run % 3 === 2 ? "las" : "ply");
      } catch (error) {
        expect((error as Error).constructor.name, `run ${run}: ${error}`).toBe("ProviderError");
      }
    }
  });
});

describe("arrays of points", () => {
  it("have colours in the last of six columns", () => {
    const found = cloudFrom([1, 2, 3, 0, 1, 0, 2, 2, 3, 1, 0, 0], [2, 6]);
    expect([...found.places]).toEqual([0, 0, 0, 1, 0, 0]);
    expect([...found.colours!]).toEqual([packed(0, 255, 0), packed(255, 0, 0)]);
    expect(() => cloudFrom([1], [1])).toThrow("no list of points");
  });
});

describe("boxes", () => {
  it("are turned around the upright axis", () => {
    const found = cornersOf([1, 2, 3, 4, 2, 1, Math.PI / 2, 0], [1, 8]);
    expect(found.length).toBe(24);
    expect(extent(found).middle.map((one) => one.toFixed(3))).toEqual(["1.000", "2.000", "3.000"]);
    const xs = [...found].filter((_, at) => at % 3 === 0);
    expect(Math.max(...xs) - Math.min(...xs)).toBeCloseTo(2); // its depth, once it is turned
  });

  it("are corners where they are stored so, and none in other arrays", () => {
    expect([...cornersOf(Array.from({ length: 24 }, (_, at) => at), [1, 8, 3])].slice(0, 3)).toEqual([0, 1, 2]);
    expect(cornersOf([], [0, 8]).length).toBe(0);
    expect(cornersOf([1, 2, 3, 4], [1, 4]).length).toBe(0);
  });
});

describe("pixels", () => {
  const front = matrixOf({ turn: 0, tilt: 0, zoom: 1, x: 0, y: 0 }, [0, 0, 0], 1, 100, 100);

  it("show the nearer of two points, with z upwards", () => {
    const frame = cleared(frameOf(100, 100));
    points(frame, Float32Array.from([0, 1, 0.5, 0, -1, 0.5]), 3, Uint32Array.from([7, 8]), front, 1);
    expect(frame.pixels[25 * 100 + 50]).toBe(8);
    expect(frame.pixels.filter(Boolean).length).toBe(1);
  });

  it("of triangles: covered where they are, and darker when turned away", () => {
    const places = Float32Array.from([-1, 0, -1, 1, 0, -1, 1, 0, 1, -1, 0, 1]);
    const frame = cleared(frameOf(100, 100));
    triangles(frame, places, Uint32Array.from([0, 1, 2, 0, 2, 3]), new Uint32Array(4).fill(packed(200, 100, 50)), front);
    expect(frame.pixels.every((one) => one === packed(200, 100, 50))).toBe(true);
    const turned = matrixOf({ turn: 1, tilt: 0, zoom: 1, x: 0, y: 0 }, [0, 0, 0], 1, 100, 100);
    triangles(cleared(frame), places, Uint32Array.from([0, 1, 2]), new Uint32Array(4).fill(packed(200, 100, 50)), turned);
    expect(Math.max(...[...frame.pixels].map((one) => one & 255))).toBeLessThan(150);
  });

  it("stay in place below the pointer while one zooms", () => {
    const [, , zoom, x, y] = orbited({ turn: 0, tilt: 0, zoom: 1, x: 0, y: 0 }, { factor: 2, x: 0.25, y: 0 });
    expect([zoom, x, y]).toEqual([2, -0.25, 0]);
  });
});
