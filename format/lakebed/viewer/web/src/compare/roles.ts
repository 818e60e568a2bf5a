/** Which tensors are compared, where the reader chose none. */

import type { TensorMeta } from "../types";

export type Roles = { [role: string]: string };

const PREDICTED = /pred|model|detect|infer|output|result/i;
const LABELLED = /label|class|categor/i;
const SCORE = /(^|[/_.-])(confidences?|scores?|probs?|probability|probabilities)$/i;

/** Return the name that belongs to another one: of its group first, then the one that begins alike. */
function near(name: string, names: string[], fits: (name: string) => boolean): string {
  const group = (of: string) => of.slice(0, of.lastIndexOf("/") + 1);
  const rank = (other: string) => {
    let same = 0;
    while (same < other.length && other[same] === name[same]) same += 1;
    return (group(other) === group(name) ? 1000 : 0) + 2 * same + Number(fits(other)) - other.length / 1000;
  };
  return [...names].sort((a, b) => rank(b) - rank(a))[0] ?? "";
}

/** Return the tensors of a match: boxes of truth and prediction, their labels, and the scores. */
export function matchRoles(left: TensorMeta[], right: TensorMeta[], isHere: boolean, given: Roles): Roles {
  const boxes = (all: TensorMeta[]) => all.filter((one) => one.kind === "bbox" && !one.sequence).map((one) => one.name);
  const [mine, theirs] = [boxes(left), boxes(right)];
  const truth = given.truth ?? mine.find((one) => !PREDICTED.test(one)) ?? mine[0] ?? "";
  const others = theirs.filter((one) => !isHere || one !== truth);
  const alike = isHere ? undefined : others.find((one) => one === truth);
  const predicted = given.predicted ?? others.find((one) => PREDICTED.test(one)) ?? alike ?? others[0] ?? "";
  const labels = (all: TensorMeta[], of: string) => (of ? near(of, all.filter((one) => one.kind === "label" && !one.sequence).map((one) => one.name), (one) => LABELLED.test(one)) : "");
  const scores = right.filter((one) => ["scalar", "array"].includes(one.kind) && SCORE.test(one.name) && !one.sequence).map((one) => one.name);
  return {
    truth, predicted,
    truthLabels: given.truthLabels ?? labels(left, truth),
    predictedLabels: given.predictedLabels ?? labels(right, predicted),
    scores: given.scores ?? (predicted ? near(predicted, scores, () => true) : ""),
  };
}

/** Return the tensors that stand beside each other: one of two versions, or two of one. */
export function sideRoles(left: TensorMeta[], right: TensorMeta[], primary: string | null, isHere: boolean, given: Roles): Roles {
  const first = primary ?? left[0]?.name ?? "";
  if (!isHere) {
    const mine = given.left ?? first;
    return { left: mine, right: given.right ?? (right.find((one) => one.name === mine) ?? right[0])?.name ?? "" };
  }
  const { truth, predicted } = matchRoles(left, right, true, {}) as { truth: string; predicted: string };
  const pair = truth && predicted ? [truth, predicted] : [first, (left.find((one) => one.kind === "image" && one.name !== first) ?? left.find((one) => one.name !== first))?.name ?? first];
  return { left: given.left ?? pair[0]!, right: given.right ?? pair[1]! };
}
