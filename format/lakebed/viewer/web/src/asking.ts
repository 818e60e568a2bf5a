/** What the page and the worker that answers its queries say to each other. */

import type { Answer, Json } from "./types";

/** A dataset at a version, and others of the lake by name. */
export interface Where {
  address: string;
  ref: string;
  others: { name: string; address: string }[];
}

export type Request =
  | { is: "query"; where: Where; q: string; text: string }
  | { is: "values"; q: string; name: string; start: number; stop: number };

export interface Found {
  told: Omit<Answer, "columns">;
  columns: Column[];
  /** Rows of the dataset; null of joins and groups. */
  rows: Int32Array<ArrayBuffer> | null;
  /** Whether the rows are of the dataset that was asked. */
  isHere: boolean;
}

export interface Column {
  name: string;
  /** The tensor that it shows as it is; null where it is computed. */
  source: string | null;
  kind: string;
  dtype: string;
  htype: string;
  rank: number | null;
  coords: string;
  classNames: string[];
  logical: string;
  isGroup: boolean;
}

export interface Told {
  id: number;
  found?: Found | Json[];
  /** Requests and bytes of the worker so far. */
  traffic?: { requests: number; bytes: number };
  error?: { kind: string; message: string; position: number | null };
}
