/** Rows under a scroll bar: which of them have an element now, which are asked for, and which one keys act on. */

import { tick, untrack } from "svelte";
import { chooseRange, moved, open, toggle } from "./choosing";
import { Bar, type Anchor, type Box, type Flow } from "./layout";
import { BLOCK, type Row, type Session } from "./session.svelte";

const FASTEST = 3; // screens a second; faster, nothing is asked for
const REST_MS = 120;

/** A row that has an element; `slot` is the element's, which goes from row to row. */
export interface Item extends Box {
  slot: number;
  position: number;
  row: Row | null;
}

export class Scroller {
  /** Elements; their tops count within what scrolls. */
  items = $state.raw<Item[]>([]);
  bands = $state.raw<{ group: number; top: number }[]>([]);
  /** Height of what scrolls. */
  inner = $state(0);
  /** Position at the upper edge, with the share of its section that lies above: all that a link needs to come back. */
  top = $state(0);
  /** Position of the row that keys act on. */
  cursor = $state(0);

  private rangeFrom = 0; // of rows that are chosen together
  private placed = ""; // what `show` was called with
  private flow: Flow | null = null;
  private first = 0; // position in sight
  private kept = 0; // place in the address, as it was last shown or written
  private bar = new Bar(0, 0);
  private anchor: Anchor = { section: 0, offset: 0 };
  private element: HTMLElement | null = null;
  private viewport = 0;
  private scroll = 0; // of the element, as it was last seen or set: it is never read outside of its event
  private lastPosition = 0;
  private speed = 0;
  private seen = 0;
  private resting = 0;
  private readonly asked = new Map<number, AbortController>();

  constructor(
    private readonly session: Session,
    private readonly overscan: number,
    private readonly margin: number,
  ) {}

  /** Take in rows as they come, and keep the place in the address; called while a component is made. */
  follow(isAway: () => boolean): void {
    $effect(() => {
      void this.session.arrivals;
      untrack(() => this.arrived());
    });
    $effect(() => {
      const { top } = this;
      const later = setTimeout(() => {
        if (isAway() || top === this.session.state.top) return;
        this.kept = top;
        this.session.change({ top });
      }, 400);
      return () => clearTimeout(later);
    });
    $effect(() => {
      const { top } = this.session.state;
      untrack(() => top !== this.kept && !this.session.busy && this.go(top)); // other rows come with a place of their own
    });
    $effect(() => {
      const { row } = this.session.state; // another one was opened beside: come back to it
      if (row !== null) untrack(() => this.reveal((this.cursor = row)));
    });
    $effect(() => () => this.stop());
  }

  /** Show rows: those of another place from where the address says, the same ones from where they are. */
  async show(flow: Flow, element: HTMLElement, viewport: number, rowHeight: number, place: string): Promise<void> {
    let first = this.flow ? this.flow.toPosition(this.anchor) : 0;
    if (this.placed !== place) {
      this.kept = first = this.session.state.top;
      this.cursor = Math.min(Math.floor(first), this.session.length - 1);
      this.stop();
    }
    this.placed = place;
    this.flow = flow;
    this.element = element;
    this.viewport = viewport;
    this.bar = new Bar(Math.max(flow.length * rowHeight, flow.length <= BLOCK ? flow.height(flow.section(0)) : 0), viewport);
    this.inner = this.bar.inner;
    this.anchor = flow.within(flow.fromPosition(Math.min(first, flow.length)), viewport);
    await tick(); // the element has its new height before it is scrolled
    if (this.flow === flow) this.settle();
  }

  /** The element was scrolled. */
  scrolled(): void {
    const { element, flow } = this;
    if (!element || !flow) return;
    const scroll = element.scrollTop;
    const moved = scroll - this.scroll;
    if (Math.abs(moved) < 1) return;
    const now = performance.now();
    const screens = Math.abs(moved) / Math.max(1, this.viewport) / (Math.max(8, Math.min(200, now - this.seen)) / 1000);
    this.speed = now - this.seen > 200 ? Math.min(screens, FASTEST) : 0.6 * this.speed + 0.4 * screens;
    this.seen = now;
    this.scroll = scroll;
    if (Math.abs(moved) <= 1.5 * this.viewport) {
      this.anchor = flow.move(this.anchor, moved, this.viewport);
      const isAtEdge = scroll <= 0 || scroll >= this.bar.inner - this.viewport - 1;
      if (isAtEdge) this.align();
    } else {
      const last = flow.toPosition(flow.last(this.viewport));
      this.anchor = flow.within(flow.fromPosition(this.bar.toShare(scroll) * last), this.viewport);
      this.speed = Math.max(this.speed, FASTEST + 1);
    }
    this.draw();
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.settle(), REST_MS);
  }

  /** A row was clicked on with a key that chooses. */
  clicked(event: MouseEvent, position: number, id: number | undefined): void {
    if (event.shiftKey) chooseRange(this.session, this.rangeFrom, position);
    else {
      if ((event.ctrlKey || event.metaKey) && id !== undefined) toggle(this.session, id);
      this.rangeFrom = position;
    }
    this.cursor = position;
  }

  /** Open or choose the row at the cursor, or go to another; `beside` tells the rows above and below. */
  pressed(event: KeyboardEvent, screen: number, beside: (at: number, by: 1 | -1) => number, go: (to: number) => void): void {
    const { session, cursor } = this;
    if (event.key === "Enter") open(session, cursor);
    else if (event.key === "x") {
      const row = session.rowNow(cursor);
      if (row) toggle(session, row.id);
      this.rangeFrom = cursor;
    } else {
      const to = moved(event.key, cursor, session.length, screen, beside);
      if (to === null) return;
      if (event.shiftKey) chooseRange(session, this.rangeFrom, to);
      else this.rangeFrom = to;
      go(to);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** Bring a row into sight. */
  reveal(position: number): void {
    const { flow, margin } = this;
    if (!flow) return;
    const { box, anchor } = flow.box(position);
    const isAbove = position < this.first;
    const upper = flow.move(anchor, -margin, this.viewport);
    const lower = flow.move(anchor, Math.min(0, box.height + margin - this.viewport), this.viewport);
    const now = flow.toPosition(this.anchor);
    if (isAbove || now > flow.toPosition(upper)) this.anchor = upper;
    else if (now < flow.toPosition(lower)) this.anchor = lower;
    else return;
    this.settle();
  }

  /** Move to a place of an address. */
  private go(top: number): void {
    const { flow } = this;
    if (!flow) return;
    this.kept = top;
    this.anchor = flow.within(flow.fromPosition(top), this.viewport);
    this.settle();
  }

  /** Rows came: take their shapes into the layout, and keep the first row in sight where it is. */
  private arrived(): void {
    const { flow } = this;
    if (!flow) return;
    const come = [...this.asked.keys()].filter((block) => this.session.rowNow(block));
    if (!come.length) return;
    const first = flow.toPosition(this.anchor);
    for (const block of come) {
      this.asked.delete(block);
      flow.forget(block, BLOCK);
    }
    this.anchor = flow.within(flow.fromPosition(first), this.viewport);
    this.settle();
  }

  private stop(): void {
    clearTimeout(this.resting);
    for (const controller of this.asked.values()) controller.abort();
    this.asked.clear();
    this.items = [];
  }

  /** At rest: ask for what is in sight, and put the bar where the rows are. */
  private settle(): void {
    clearTimeout(this.resting);
    this.speed = 0;
    this.align();
    this.draw();
  }

  private align(): void {
    const { flow, element } = this;
    if (!flow || !element) return;
    const last = flow.toPosition(flow.last(this.viewport));
    const wanted = Math.round(this.bar.toScroll(last ? flow.toPosition(this.anchor) / last : 0));
    if (Math.abs(wanted - this.scroll) < 1) return;
    this.scroll = wanted;
    element.scrollTop = wanted;
  }

  private draw(): void {
    const { flow } = this;
    if (!flow) return;
    const over = this.overscan * this.viewport;
    const { boxes, bands } = flow.inSight(this.anchor, over, this.viewport + over);
    const isFlying = this.speed > FASTEST;
    const before = new Map(this.items.map((item) => [item.position, item]));
    const staying = new Set(boxes.filter((box) => before.has(box.position)).map((box) => before.get(box.position)?.slot));
    const free = this.items.map((item) => item.slot).filter((slot) => !staying.has(slot));
    let most = this.items.reduce((highest, item) => Math.max(highest, item.slot + 1), 0);
    const items = boxes.map((box): Item => {
      const old = before.get(box.position);
      const top = Math.round(this.scroll + box.top);
      const row = isFlying ? (old?.row ?? null) : this.session.rowNow(box.position);
      if (old && old.top === top && old.left === box.left && old.width === box.width && old.height === box.height && old.row === row) return old;
      return { ...box, top, row, slot: old?.slot ?? free.pop() ?? most++ };
    });
    items.sort((a, b) => a.slot - b.slot);
    if (items.length !== this.items.length || items.some((item, at) => item !== this.items[at])) this.items = items;
    this.bands = bands.map(({ group, top }) => ({ group, top: Math.round(this.scroll + top) }));
    this.first = boxes.find((box) => box.top + box.height / 2 >= 0)?.position ?? 0;
    this.top = Math.round(flow.toPosition(this.anchor) * 1000) / 1000;
    this.ask(boxes.map((box) => box.position), isFlying);
  }

  private ask(positions: number[], isFlying: boolean): void {
    const needed = new Set(positions.map((position) => position - (position % BLOCK)));
    for (const [block, controller] of this.asked) {
      if (needed.has(block)) continue;
      controller.abort();
      this.asked.delete(block);
    }
    if (isFlying) return;
    for (const block of needed) {
      if (this.asked.has(block) || this.session.rowNow(block)) continue;
      const controller = new AbortController();
      this.asked.set(block, controller);
      this.session.row(block, controller.signal);
    }
  }
}
