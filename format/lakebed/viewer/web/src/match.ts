/** Predicted boxes matched with true ones as COCO's evaluation does it, and what is counted of that. */

/** Boxes of rows, one row after the other: those of row `r` are numbers `starts[r]` to before `starts[r + 1]`. */
export interface Objects {
  starts: Uint32Array;
  /** Left, top, width and height of each. */
  boxes: Float64Array;
  /** Number of the class of each. */
  classes: Int32Array;
  scores: Float64Array;
}

/** A count: true and false positives, false negatives of a class; or a cell of the matrix, of which "" is no object. */
export type Pick = ["tp" | "fp" | "fn", number] | ["cell", number, number];

export interface Matches {
  /** For each prediction the true box that it found, -1 if none; for each true box the prediction that found it. */
  truthOf: Int32Array;
  predictionOf: Int32Array;
  /** The same for pairs of different classes, among boxes that found none of their own. */
  takenFor: Int32Array;
  takenBy: Int32Array;
  /** For each prediction its largest overlap with a true box of its class. */
  best: Float64Array;
  least: number;
}

export interface Counts {
  tp: Uint32Array;
  fp: Uint32Array;
  fn: Uint32Array;
  /** Rows are true classes, columns predicted ones; the last of each is no object. */
  matrix: Uint32Array;
}

/** Return the intersection of two boxes over their union. */
export function overlap(a: Float64Array, i: number, b: Float64Array, j: number): number {
  const [x, y, w, h] = [a[4 * i]!, a[4 * i + 1]!, a[4 * i + 2]!, a[4 * i + 3]!];
  const [u, v, s, t] = [b[4 * j]!, b[4 * j + 1]!, b[4 * j + 2]!, b[4 * j + 3]!];
  const across = Math.min(x + w, u + s) - Math.max(x, u);
  const down = Math.min(y + h, v + t) - Math.max(y, v);
  if (!(across > 0 && down > 0)) return 0;
  const both = across * down;
  return both / (w * h + s * t - both);
}

/** Return the numbers of a row's boxes, the highest score first; equal ones in their order. */
function ranked({ starts, scores }: Objects, row: number): number[] {
  const found: number[] = [];
  for (let at = starts[row]!; at < starts[row + 1]!; at += 1) found.push(at);
  return found.sort((a, b) => scores[b]! - scores[a]!);
}

/**
 * Match the predictions of each row with its true boxes.
 *
 * Predictions choose in the order of their scores: each takes the box of its class that no other one took and that it
 * overlaps most, by `iou` at least. What is left of both, without predictions below the score `least`, is matched across
 * classes in the same way: confusions.
 */
export function match(truth: Objects, predicted: Objects, iou: number, least: number): Matches {
  const none = (objects: Objects) => new Int32Array(objects.classes.length).fill(-1);
  const [truthOf, takenFor] = [none(predicted), none(predicted)];
  const [predictionOf, takenBy] = [none(truth), none(truth)];
  const best = new Float64Array(predicted.classes.length);
  const enough = Math.min(iou, 1 - 1e-10); // as in COCO's evaluation: equal boxes have 1 only about
  for (let row = 0; row + 1 < truth.starts.length; row += 1) {
    const [from, to] = [truth.starts[row]!, truth.starts[row + 1]!];
    const order = ranked(predicted, row);
    for (const one of order) {
      let most = enough;
      for (let at = from; at < to; at += 1) {
        if (truth.classes[at] !== predicted.classes[one]) continue;
        const share = overlap(predicted.boxes, one, truth.boxes, at);
        best[one] = Math.max(best[one]!, share);
        if (predictionOf[at]! >= 0 || share < most) continue;
        most = share;
        truthOf[one] = at;
      }
      if (truthOf[one]! >= 0) predictionOf[truthOf[one]!] = one;
    }
    for (const one of order) {
      if (truthOf[one]! >= 0 || predicted.scores[one]! < least) continue;
      let most = enough;
      for (let at = from; at < to; at += 1) {
        if (isFound(at, predicted, predictionOf, least) || takenBy[at]! >= 0) continue;
        const share = overlap(predicted.boxes, one, truth.boxes, at);
        if (share < most) continue;
        most = share;
        takenFor[one] = at;
      }
      if (takenFor[one]! >= 0) takenBy[takenFor[one]!] = one;
    }
  }
  return { truthOf, predictionOf, takenFor, takenBy, best, least };
}

/** Whether a prediction that is shown found a true box. */
function isFound(at: number, predicted: Objects, predictionOf: Int32Array, least: number): boolean {
  return predictionOf[at]! >= 0 && predicted.scores[predictionOf[at]!]! >= least;
}

/** Call `see` with each true box and each prediction that is shown: which count it is in, and its cell of the matrix. */
function each(truth: Objects, predicted: Objects, matches: Matches, classes: number, see: (row: number, is: "tp" | "fp" | "fn", of: number, from: number, to: number) => void): void {
  const { truthOf, predictionOf, takenFor, takenBy, least } = matches;
  for (let row = 0; row + 1 < truth.starts.length; row += 1) {
    for (let at = predicted.starts[row]!; at < predicted.starts[row + 1]!; at += 1) {
      if (predicted.scores[at]! < least) continue;
      const of = predicted.classes[at]!;
      if (truthOf[at]! >= 0) see(row, "tp", of, of, of);
      else see(row, "fp", of, takenFor[at]! >= 0 ? truth.classes[takenFor[at]!]! : classes, of);
    }
    for (let at = truth.starts[row]!; at < truth.starts[row + 1]!; at += 1) {
      if (isFound(at, predicted, predictionOf, least)) continue;
      const of = truth.classes[at]!;
      see(row, "fn", of, of, takenBy[at]! >= 0 ? -1 : classes); // a confusion is told by its prediction
    }
  }
}

export function counted(truth: Objects, predicted: Objects, matches: Matches, classes: number): Counts {
  const zeros = () => new Uint32Array(classes);
  const found: Counts = { tp: zeros(), fp: zeros(), fn: zeros(), matrix: new Uint32Array((classes + 1) ** 2) };
  each(truth, predicted, matches, classes, (_, is, of, from, to) => {
    found[is][of]! += 1;
    if (to >= 0) found.matrix[from * (classes + 1) + to]! += 1;
  });
  return found;
}

/** Return the rows that have a box of a count, in their order. */
export function rowsOf(truth: Objects, predicted: Objects, matches: Matches, classes: number, pick: Pick): number[] {
  const found = new Set<number>();
  each(truth, predicted, matches, classes, (row, is, of, from, to) => {
    if (pick[0] === "cell" ? from === pick[1] && to === pick[2] : is === pick[0] && of === pick[1]) found.add(row);
  });
  return [...found];
}

/** Precision at 101 recalls from 0 to 1, as COCO has it, and their mean. */
export interface Curve {
  precision: Float64Array;
  average: number;
}

const RECALLS = 101;

/** Return the curve of each class, over all scores; null for one without true boxes. */
export function curves(truth: Objects, predicted: Objects, { truthOf }: Matches, classes: number): (Curve | null)[] {
  const total = new Uint32Array(classes);
  for (const of of truth.classes) total[of]! += 1;
  return byScore(predicted, classes).map((mine, of) => (total[of] ? curve(mine, truthOf, total[of]) : null));
}

const ORDERS = new WeakMap<Objects, number[][]>(); // sorting takes longer than matching, and no threshold changes it

/** Return the predictions of each class, the highest score first. */
function byScore(predicted: Objects, classes: number): number[][] {
  const known = ORDERS.get(predicted);
  if (known) return known;
  const found: number[][] = Array.from({ length: classes }, () => []);
  predicted.classes.forEach((of, at) => found[of]!.push(at));
  for (const mine of found) mine.sort((a, b) => predicted.scores[b]! - predicted.scores[a]!);
  ORDERS.set(predicted, found);
  return found;
}

function curve(order: number[], truthOf: Int32Array, total: number): Curve {
  const [precision, recall] = [new Float64Array(order.length), new Float64Array(order.length)];
  let right = 0;
  order.forEach((one, at) => {
    if (truthOf[one]! >= 0) right += 1;
    precision[at] = right / (at + 1 + Number.EPSILON);
    recall[at] = right / total;
  });
  for (let at = order.length - 1; at > 0; at -= 1) precision[at - 1] = Math.max(precision[at - 1]!, precision[at]!);
  const found = new Float64Array(RECALLS);
  let at = 0;
  for (let step = 0; step < RECALLS; step += 1) {
    const asked = step === RECALLS - 1 ? 1 : step * 0.01;
    while (at < order.length && recall[at]! < asked) at += 1;
    if (at < order.length) found[step] = precision[at]!;
  }
  return { precision: found, average: found.reduce((sum, one) => sum + one, 0) / RECALLS };
}
