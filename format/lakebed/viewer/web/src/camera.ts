/** Where an image stands in a view: pure functions of its size, the view's size and a camera. */

export interface Size {
  width: number;
  height: number;
}

/** CSS pixels for each pixel of the image, 0 to fit it; and the place of the image in the middle of the view. */
export interface Camera {
  scale: number;
  x: number;
  y: number;
}

const MOST_SCALE = 64;

/** Return the camera that shows the whole image, at its centre; small images are enlarged. */
export function fit(image: Size, view: Size): Camera {
  const scale = Math.min(view.width / image.width, view.height / image.height);
  return { scale: Math.min(scale, MOST_SCALE) || 1, x: image.width / 2, y: image.height / 2 };
}

/** Return a camera within the limits: not smaller than half of what fits, and with the image in sight. */
export function limited(camera: Camera, image: Size, view: Size): Camera {
  const whole = fit(image, view);
  if (!(camera.scale > 0) || ![camera.x, camera.y].every(Number.isFinite)) return whole;
  const scale = Math.min(Math.max(camera.scale, Math.min(1, whole.scale) / 2), Math.max(MOST_SCALE, whole.scale));
  const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), most);
  return { scale, x: clamp(camera.x, image.width), y: clamp(camera.y, image.height) };
}

/** Return where in the view a place of the image is. */
export function toView(camera: Camera, view: Size, x: number, y: number): [number, number] {
  return [(x - camera.x) * camera.scale + view.width / 2, (y - camera.y) * camera.scale + view.height / 2];
}

/** Return the place of the image at a place of the view. */
export function toImage(camera: Camera, view: Size, x: number, y: number): [number, number] {
  return [(x - view.width / 2) / camera.scale + camera.x, (y - view.height / 2) / camera.scale + camera.y];
}

/** Zoom so that the place of the image below (x, y) of the view stays there. */
export function zoomedAt(camera: Camera, factor: number, x: number, y: number, image: Size, view: Size): Camera {
  const [at, below] = toImage(camera, view, x, y);
  const { scale } = limited({ ...camera, scale: camera.scale * factor }, image, view);
  return limited(
    { scale, x: at - (x - view.width / 2) / scale, y: below - (y - view.height / 2) / scale },
    image,
    view,
  );
}

/** Move the image by so many CSS pixels. */
export function panned(camera: Camera, dx: number, dy: number, image: Size, view: Size): Camera {
  return limited({ ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale }, image, view);
}

export type Pair = readonly [readonly [number, number], readonly [number, number]];

/** Follow two fingers: what was below each of them before is below it after, as far as a turn is none. */
export function pinched(camera: Camera, before: Pair, after: Pair, image: Size, view: Size): Camera {
  const middle = ([a, b]: Pair) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] as const;
  const span = ([a, b]: Pair) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
  const [from, to] = [middle(before), middle(after)];
  const moved = panned(camera, to[0] - from[0], to[1] - from[1], image, view);
  return zoomedAt(moved, span(after) / span(before), to[0], to[1], image, view);
}

/** Return the camera that shows the same part of an image of another size. */
export function across(camera: Camera, from: Size, to: Size): Camera {
  const factor = to.width / from.width;
  return { scale: camera.scale / factor, x: camera.x * factor, y: (camera.y * to.height) / from.height };
}

const STEPS = [128, 256, 512, 1024, 2048];
const TILE = 512;
const MOST_WHOLE = 16 << 20; // pixels of an image that is asked for in one piece at any zoom

/** Return the width to ask for, of those the server makes, for `needed` pixels across; 0 asks for all. */
export function widthStep(needed: number, image: Size): number {
  const step = STEPS.find((one) => one >= Math.min(needed, image.width)) ?? 0;
  return step >= image.width ? 0 : step;
}

/** Return the width to ask for of the whole image: what the zoom needs, or, of a large one, what shows all of it. */
export function wholeStep(camera: Camera, image: Size, view: Size, ratio: number): number {
  const scale = isLarge(image) ? Math.min(camera.scale, fit(image, view).scale) : camera.scale;
  return widthStep(scale * ratio * image.width * 0.9, image); // a tenth more or less is not seen
}

function isLarge(image: Size): boolean {
  return image.width * image.height > MOST_WHOLE;
}

/** Boxes in the image's pixels, and how many of these are one pixel of what is asked for. */
export interface Tiles {
  factor: number;
  boxes: [number, number, number, number][];
}

/**
 * Return the tiles of 512 pixels that are in sight, at the level that the zoom needs; null where the picture in one
 * piece (of `wholeStep` pixels across) is enough.
 */
export function tilesOf(camera: Camera, image: Size, view: Size, ratio: number): Tiles | null {
  const whole = wholeStep(camera, image, view, ratio);
  if (!isLarge(image) || !whole || camera.scale * ratio * image.width <= whole * 1.1) return null;
  const factor = 2 ** Math.max(0, Math.floor(Math.log2(1 / (camera.scale * ratio))));
  const span = TILE * factor;
  const [left, top] = toImage(camera, view, 0, 0);
  const [right, bottom] = toImage(camera, view, view.width, view.height);
  const from = (value: number) => Math.max(0, Math.floor(value / span));
  const boxes: Tiles["boxes"] = [];
  for (let row = from(top); row * span < Math.min(bottom, image.height); row += 1) {
    for (let column = from(left); column * span < Math.min(right, image.width); column += 1) {
      const [x, y] = [column * span, row * span];
      boxes.push([x, y, Math.min(span, image.width - x), Math.min(span, image.height - y)]);
    }
  }
  return { factor, boxes };
}
