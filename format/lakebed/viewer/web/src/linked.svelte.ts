/** One camera for all pictures of a page, whatever their sizes are. */

import type { Camera, Size } from "./camera";
import type { Session } from "./session.svelte";

/** CSS pixels that the whole image is wide, and the share of its width and height that is in the middle. */
interface Shared {
  across: number;
  x: number;
  y: number;
}

const DELAY = 250; // milliseconds without a move, after which the address follows

export class Linked {
  private shared = $state.raw<Shared | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isRead = false;

  constructor(private readonly session: Session) {}

  /** Return the camera for an image; null fits it. */
  of(image: Size): Camera | null {
    const found = this.shared;
    return found && { scale: found.across / image.width, x: found.x * image.width, y: found.y * image.height };
  }

  /** Take the camera of the address, once. */
  read(image: Size): void {
    const { zoom } = this.session.state;
    if (!this.isRead && zoom.scale > 0) this.shared = shared(zoom, image);
    this.isRead = true;
  }

  /** Move to a camera of an image; null fits it. */
  move(camera: Camera | null, image: Size): void {
    this.isRead = true;
    this.shared = camera && shared(camera, image);
    clearTimeout(this.timer);
    const round = (value: number) => Number(value.toPrecision(5));
    const zoom = camera ? { scale: round(camera.scale), x: round(camera.x), y: round(camera.y) } : { scale: 0, x: 0, y: 0 };
    this.timer = setTimeout(() => {
      if (JSON.stringify(zoom) !== JSON.stringify(this.session.state.zoom)) this.session.change({ zoom });
    }, DELAY);
  }
}

function shared(camera: Camera, image: Size): Shared {
  return { across: camera.scale * image.width, x: camera.x / image.width, y: camera.y / image.height };
}

const OF = new WeakMap<Session, Linked>();

export function linked(session: Session): Linked {
  const found = OF.get(session) ?? new Linked(session);
  OF.set(session, found);
  return found;
}
