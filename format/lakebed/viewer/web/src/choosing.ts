/** Opening and choosing rows, and what moves the cursor over them. */

import { framesOf, isScan } from "./scene";
import { BLOCK, type Session } from "./session.svelte";

/** Return the frame that a row is opened at: of a scan the slice in its middle, which grids show. */
export function firstFrame(session: Session, position: number): number {
  const { primary } = session;
  return primary && isScan(primary) ? framesOf(primary, session.rowNow(position)?.cells[primary.name]) >> 1 : 0;
}

/** Open the row at a position. */
export function open(session: Session, position: number): void {
  session.change({ row: position, frame: firstFrame(session, position), zoom: { scale: 0, x: 0, y: 0 } });
}

/** Open the next row, or the one before. */
export function step(session: Session, by: 1 | -1): void {
  const next = (session.state.row ?? Infinity) + by;
  if (next >= 0 && next < session.length) open(session, next);
}

/** A list with a member that it lacked, or without one that it had. */
function toggled<T>(list: T[], member: T): T[] {
  return list.includes(member) ? list.filter((one) => one !== member) : [...list, member];
}

/** Show or hide a tensor that is drawn over others. */
export function toggleOverlay(session: Session, name: string): void {
  session.change({ hidden: toggled(session.state.hidden, name) });
}

/** Show or hide a class of a tensor. */
export function toggleClass(session: Session, tensor: string, name: string): void {
  session.change({ hiddenClasses: toggled(session.state.hiddenClasses, `${tensor}:${name}`) });
}

/** Choose a row, or leave it out. */
export function toggle(session: Session, id: number): void {
  if (id >= 0) session.change({ selected: toggled(session.state.selected, id) }); // a group of a query is no row
}

const HELD_MS = 450; // before a browser's own menu comes
const STILL = 10; // CSS pixels that a finger may move

/** Fingers on rows: a long press chooses one, and from then on each tap, until none is chosen. */
export class Fingers {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private from: [number, number] = [0, 0];
  private isHeld = false;
  private took = -Infinity; // when a click of theirs was no ordinary one

  down(event: PointerEvent, choose: () => void): void {
    this.isHeld = false;
    if (event.pointerType !== "touch") return;
    this.lifted();
    if (!event.isPrimary) return;
    this.from = [event.clientX, event.clientY];
    this.timer = setTimeout(() => {
      this.isHeld = true;
      choose();
    }, HELD_MS);
  }

  moved(event: PointerEvent): void {
    if (Math.hypot(event.clientX - this.from[0], event.clientY - this.from[1]) > STILL) this.lifted();
  }

  lifted(): void {
    clearTimeout(this.timer);
  }

  /** What a click is: the end of a long press, a tap that chooses, or neither. */
  of(event: MouseEvent, session: Session): "held" | "choose" | null {
    const is = this.isHeld ? "held" : (event as PointerEvent).pointerType === "touch" && session.state.selected.length ? "choose" : null;
    if (is) this.took = event.timeStamp;
    return is;
  }

  /** Whether a double click is more than two rows that were chosen quickly. */
  isDouble(event: MouseEvent): boolean {
    return event.timeStamp - this.took > 600;
  }
}

/** Choose all rows between two positions. */
export async function chooseRange(session: Session, from: number, to: number): Promise<void> {
  const [first, last] = [Math.min(from, to), Math.min(Math.max(from, to), Math.min(from, to) + 9_999)];
  const blocks: Promise<unknown>[] = [];
  for (let at = first - (first % BLOCK); at <= last; at += BLOCK) blocks.push(session.rowLater(at));
  await Promise.all(blocks);
  const chosen = new Set(session.state.selected);
  for (let at = first; at <= last; at += 1) {
    const id = session.rowNow(at)?.id ?? -1;
    if (id >= 0) chosen.add(id);
  }
  await session.change({ selected: [...chosen] });
}

/** What a key does to a cursor over rows; null where it is none of these. */
export function moved(
  key: string,
  at: number,
  length: number,
  screen: number,
  beside: (at: number, direction: 1 | -1) => number,
): number | null {
  const within = (position: number) => Math.max(0, Math.min(length - 1, position));
  switch (key) {
    case "ArrowRight": return within(at + 1);
    case "ArrowLeft": return within(at - 1);
    case "ArrowDown": return beside(at, 1);
    case "ArrowUp": return beside(at, -1);
    case "PageDown": return within(at + screen);
    case "PageUp": return within(at - screen);
    case "Home": return 0;
    case "End": return length - 1;
    default: return null;
  }
}
