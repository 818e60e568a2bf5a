/** One camera for all pictures of a page, whatever their sizes are. */

import { across, type Camera, type Size } from "./camera";
import type { Session } from "./session.svelte";

const DELAY = 250; // milliseconds without a move, after which the address follows

export class Linked {
  /** The last camera that was chosen, and the size of the image that it is of; null fits images. */
  private chosen = $state.raw<{ camera: Camera; image: Size } | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isRead = false;

  constructor(private readonly session: Session) {}

  /** Return the camera for an image; null fits it. */
  of(image: Size): Camera | null {
    return this.chosen && across(this.chosen.camera, this.chosen.image, image);
  }

  /** Take the camera of the address, once. */
  read(image: Size): void {
    const { zoom } = this.session.state;
    if (!this.isRead && zoom.scale > 0) this.chosen = { camera: zoom, image };
    this.isRead = true;
  }

  /** Move to a camera of an image; null fits it. */
  move(camera: Camera | null, image: Size): void {
    this.isRead = true;
    this.chosen = camera && { camera, image };
    clearTimeout(this.timer);
    const round = (value: number) => Number(value.toPrecision(5));
    const zoom = camera ? { scale: round(camera.scale), x: round(camera.x), y: round(camera.y) } : { scale: 0, x: 0, y: 0 };
    this.timer = setTimeout(() => {
      if (JSON.stringify(zoom) !== JSON.stringify(this.session.state.zoom)) this.session.change({ zoom });
    }, DELAY);
  }
}

const OF = new WeakMap<Session, Linked>();

export function linked(session: Session): Linked {
  const found = OF.get(session) ?? new Linked(session);
  OF.set(session, found);
  return found;
}

/** Let the pictures of a session follow the camera of another one. */
export function follow(session: Session, leader: Session): void {
  OF.set(session, linked(leader));
}
