/** Where cells stand: rows laid out in sections one by one, and a scroll bar over any number of them. */

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Laid {
  boxes: Box[];
  height: number;
}

/** A box at a position of the rows; its top counts from the upper edge of what is in sight. */
export interface Placed extends Box {
  position: number;
}

/** The upper edge of what is in sight: pixels below the beginning of a section. */
export interface Anchor {
  section: number;
  offset: number;
}

/** What lies between two places where rows are cut: every so many rows, and where groups begin. */
export interface Section {
  start: number;
  end: number;
  /** Number of the group that begins here, else null. */
  group: number | null;
}

/**
 * Lay pictures out in lines that are as wide as the page and nearly as high as wanted.
 *
 * The lines of a section hold nearly the same sum of aspects, so that its last line is no remainder. `extra` pixels lie
 * below each picture, for a caption.
 */
export function justified(aspects: number[], width: number, target: number, gap: number, extra = 0): Laid {
  const clamped = aspects.map((one) => Math.min(3, Math.max(0.4, one || 1)));
  const total = clamped.reduce((sum, one) => sum + one, 0);
  const lineCount = Math.max(1, Math.round((total * target + gap * clamped.length) / (width + gap)));
  const lines: number[][] = [];
  let sum = 0;
  for (const aspect of clamped) {
    const at = Math.min(lineCount - 1, Math.floor(((sum + aspect / 2) / total) * lineCount));
    (lines[at] ??= []).push(aspect);
    sum += aspect;
  }
  const boxes: Box[] = [];
  const highest = Math.round(total * target < width * 0.75 ? target : target * 1.8); // a few stand beside each other
  let top = 0;
  for (const line of lines) {
    if (!line) continue; // a wide picture took the place of two lines
    const sum = line.reduce((a, b) => a + b, 0);
    const exact = Math.min(highest, (width - gap * (line.length - 1)) / sum);
    const height = Math.round(exact);
    let passed = 0;
    line.forEach((aspect, at) => {
      const left = Math.round(passed * exact) + at * gap;
      passed += aspect;
      boxes.push({ left, top, width: Math.round(passed * exact) + at * gap - left, height: height + extra });
    });
    top += height + extra + gap;
  }
  return { boxes, height: top };
}

/** Rows below each other, all of one height. */
export function listed(count: number, width: number, height: number): Laid {
  return {
    boxes: Array.from({ length: count }, (_, at) => ({ left: 0, top: at * height, width, height })),
    height: count * height,
  };
}

/** Rows in sections, of which only those near what is in sight are ever laid out. */
export class Flow {
  private readonly laid = new Map<number, Laid>();

  /**
   * @param block Rows of a section, of which lines of the usual shape are filled.
   * @param lay Lay out the rows from a position on, with what is known of them now.
   * @param groups First positions of groups, ascending.
   * @param band Height of the heading of a group.
   */
  constructor(
    readonly length: number,
    private readonly block: number,
    private readonly lay: (start: number, count: number) => Laid,
    private readonly groups: number[] = [],
    private readonly band = 0,
  ) {}

  section(position: number): Section {
    const at = Math.min(Math.max(0, Math.floor(position)), Math.max(0, this.length - 1));
    let low = 0;
    let high = this.groups.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.groups[middle] as number) <= at) low = middle + 1;
      else high = middle;
    }
    const group = this.groups[low - 1];
    const block = at - (at % this.block);
    const start = Math.max(block, group ?? 0);
    const end = Math.min(block + this.block, this.groups[low] ?? this.length, this.length);
    return { start, end, group: group === start ? low - 1 : null };
  }

  /** Lay out anew where some rows are: more is known of them. */
  forget(from: number, count: number): void {
    for (let at = from; at < Math.min(from + count, this.length); ) {
      const section = this.section(at);
      this.laid.delete(section.start);
      at = section.end;
    }
  }

  layout(section: Section): Laid {
    let found = this.laid.get(section.start);
    if (!found) {
      if (this.laid.size > 128) this.laid.clear();
      found = this.lay(section.start, section.end - section.start);
      this.laid.set(section.start, found);
    }
    return found;
  }

  height(section: Section): number {
    return this.layout(section).height + (section.group === null ? 0 : this.band);
  }

  /** Position at the upper edge, with the share of the section that lies above it. */
  toPosition(anchor: Anchor): number {
    const section = this.section(anchor.section);
    const height = this.height(section);
    return section.start + (height ? Math.min(1, Math.max(0, anchor.offset / height)) : 0) * (section.end - section.start);
  }

  fromPosition(position: number): Anchor {
    const section = this.section(position);
    const share = Math.min(1, Math.max(0, (position - section.start) / Math.max(1, section.end - section.start)));
    return { section: section.start, offset: share * this.height(section) };
  }

  /** The anchor so many pixels further down, within what there is. */
  move(anchor: Anchor, pixels: number, viewport: number): Anchor {
    let section = this.section(anchor.section);
    let offset = anchor.offset + pixels;
    while (offset < 0) {
      if (section.start === 0) return { section: 0, offset: 0 };
      section = this.section(section.start - 1);
      offset += this.height(section);
    }
    while (section.end < this.length && offset >= this.height(section)) {
      offset -= this.height(section);
      section = this.section(section.end);
    }
    return this.within({ section: section.start, offset }, viewport);
  }

  /** The anchor at which the last row ends at the lower edge. */
  last(viewport: number): Anchor {
    let section = this.section(this.length - 1);
    let rest = viewport - this.height(section);
    while (rest > 0 && section.start > 0) {
      section = this.section(section.start - 1);
      rest -= this.height(section);
    }
    return { section: section.start, offset: Math.max(0, -rest) };
  }

  within(anchor: Anchor, viewport: number): Anchor {
    const last = this.last(viewport);
    const isBeyond = anchor.section > last.section || (anchor.section === last.section && anchor.offset > last.offset);
    return isBeyond ? last : anchor;
  }

  /** Boxes from so many pixels above the upper edge to so many below it, and headings of groups. */
  inSight(anchor: Anchor, above: number, below: number): { boxes: Placed[]; bands: { group: number; top: number }[] } {
    const boxes: Placed[] = [];
    const bands: { group: number; top: number }[] = [];
    if (!this.length) return { boxes, bands };
    let section = this.section(anchor.section);
    let top = -anchor.offset;
    while (top > -above && section.start > 0) {
      section = this.section(section.start - 1);
      top -= this.height(section);
    }
    for (;;) {
      if (section.group !== null) {
        bands.push({ group: section.group, top });
        top += this.band;
      }
      const { boxes: found, height } = this.layout(section);
      found.forEach((box, at) => {
        if (top + box.top + box.height >= -above && top + box.top <= below) {
          boxes.push({ ...box, top: top + box.top, position: section.start + at });
        }
      });
      top += height;
      if (top > below || section.end >= this.length) return { boxes, bands };
      section = this.section(section.end);
    }
  }

  /** The box of a row, and the anchor at which it begins at the upper edge. */
  box(position: number): { box: Box; anchor: Anchor } {
    const section = this.section(position);
    const box = this.layout(section).boxes[position - section.start] as Box;
    return { box, anchor: { section: section.start, offset: box.top + (section.group === null ? 0 : this.band) } };
  }

  /** The position in the line above or below that lies nearest; the same one where there is no such line. */
  beside(position: number, direction: 1 | -1): number {
    const from = this.box(position).box;
    const middle = from.left + from.width / 2;
    let section = this.section(position);
    let edge: number | null = from.top;
    for (;;) {
      const boxes = this.layout(section).boxes;
      const tops = boxes.map((one) => one.top).filter((top) => edge === null || (direction > 0 ? top > edge : top < edge));
      if (tops.length) {
        const line = direction > 0 ? Math.min(...tops) : Math.max(...tops);
        let best = -1;
        let least = Infinity;
        boxes.forEach((one, at) => {
          const distance = Math.abs(one.left + one.width / 2 - middle);
          if (one.top === line && distance < least) [best, least] = [at, distance];
        });
        return section.start + best;
      }
      const next = direction > 0 ? section.end : section.start - 1;
      if (next < 0 || next >= this.length) return position;
      section = this.section(next);
      edge = null;
    }
  }
}

/**
 * A scroll bar over more pixels than an element can have.
 *
 * Near both ends a pixel of the bar is a pixel of the rows; in the middle it is more of them.
 */
export class Bar {
  /** Height of what scrolls. */
  readonly inner: number;

  constructor(
    private readonly total: number,
    private readonly viewport: number,
    most = 8_000_000,
  ) {
    this.inner = Math.max(viewport, Math.min(total, most));
  }

  /** Scroll offset of a share, 0 to 1, of the way to the end. */
  toScroll(share: number): number {
    const way = this.inner - this.viewport;
    const full = Math.max(0, this.total - this.viewport);
    const pixels = Math.min(1, Math.max(0, share)) * full;
    const edge = way / 4;
    if (full <= way || pixels <= edge) return pixels;
    if (pixels >= full - edge) return way - (full - pixels);
    return edge + ((pixels - edge) / (full - 2 * edge)) * (way - 2 * edge);
  }

  toShare(scroll: number): number {
    const way = this.inner - this.viewport;
    const full = Math.max(0, this.total - this.viewport);
    if (!full || way <= 0) return 0;
    const edge = way / 4;
    let pixels = scroll;
    if (full > way && scroll > edge) {
      pixels = scroll >= way - edge ? full - (way - scroll) : edge + ((scroll - edge) / (way - 2 * edge)) * (full - 2 * edge);
    }
    return Math.min(1, Math.max(0, pixels / full));
  }
}
