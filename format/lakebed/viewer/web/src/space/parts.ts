/** What is drawn as points, in one chunk that is loaded on demand: the page itself stays one file, as widgets need it. */

export { default as VectorMap } from "../map/Map.svelte";
export { default as Space } from "./Space.svelte";
