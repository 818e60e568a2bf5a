import { mount } from "svelte";
import App from "./App.svelte";
import { CommProvider, isWidget } from "./comm";
import type { Provider } from "./provider";
import { ServerProvider, takeToken } from "./server";
import "./style.css";

/** The list of datasets that a page without a server reads by itself; null where a server answers. */
const listing = document.querySelector('meta[name="lakebed-lake"]')?.getAttribute("content") ?? null;

async function start(target: HTMLElement): Promise<void> {
  let provider: Provider;
  const token = listing === null ? takeToken() : null;
  if (listing !== null) provider = new (await import("./static")).StaticProvider(new URL(listing, document.baseURI).href);
  else provider = isWidget ? new CommProvider() : new ServerProvider(document.baseURI, token ?? "");
  mount(App, { target, props: { provider, token, isStatic: listing !== null } });
}

const target = document.getElementById("app");
if (target) void start(target);
