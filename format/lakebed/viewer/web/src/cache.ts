/** A cache by bytes that asks once for what several want, and stops what nobody waits for any more. */

interface Entry<T> {
  promise: Promise<T>;
  /** Bytes, once it is there. */
  size: number;
  value: T | undefined;
  isThere: boolean;
  waiting: number;
  controller: AbortController;
}

/** Values by key, at most so many bytes of them; the ones used longest ago go first. */
export class Cache<T> {
  private readonly entries = new Map<string, Entry<T>>();
  private bytes = 0;

  constructor(
    private readonly mostBytes: () => number,
    private readonly sizeOf: (value: T) => number,
    private readonly dispose: (value: T) => void = () => {},
  ) {}

  /** Return a value that is there, without asking for it. */
  peek(key: string): T | undefined {
    const entry = this.entries.get(key);
    if (!entry?.isThere) return undefined;
    this.entries.delete(key);
    this.entries.set(key, entry); // the newest is last
    return entry.value;
  }

  /**
   * Return a value, asked for by `load` unless it is there or on its way.
   *
   * Whoever raises `signal` stops waiting; `load`'s own signal is raised once nobody waits.
   */
  get(key: string, load: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const found = this.peek(key);
    if (found !== undefined) return Promise.resolve(found);
    let entry = this.entries.get(key);
    if (!entry) {
      entry = this.started(key, load);
      this.entries.set(key, entry);
    }
    return signal ? this.waited(entry, signal) : (entry.waiting++, entry.promise);
  }

  private started(key: string, load: (signal: AbortSignal) => Promise<T>): Entry<T> {
    const controller = new AbortController();
    const entry: Entry<T> = {
      promise: load(controller.signal),
      size: 0,
      value: undefined,
      isThere: false,
      waiting: 0,
      controller,
    };
    entry.promise = entry.promise.then(
      (value) => {
        if (this.entries.get(key) !== entry) return value; // nobody waited any more
        entry.value = value;
        entry.isThere = true;
        entry.size = this.sizeOf(value);
        this.bytes += entry.size;
        this.shrink(key);
        return value;
      },
      (error: unknown) => {
        if (this.entries.get(key) === entry) this.entries.delete(key);
        throw error;
      },
    );
    entry.promise.catch(() => {}); // those who wait are told; nobody may wait
    return entry;
  }

  private waited(entry: Entry<T>, signal: AbortSignal): Promise<T> {
    entry.waiting += 1;
    return new Promise<T>((resolve, reject) => {
      const leave = () => {
        entry.waiting -= 1;
        if (!entry.waiting && !entry.isThere) {
          for (const [key, one] of this.entries) if (one === entry) this.entries.delete(key);
          entry.controller.abort();
        }
        reject(signal.reason as Error);
      };
      signal.addEventListener("abort", leave, { once: true });
      entry.promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave));
    });
  }

  private shrink(newest: string): void {
    const most = this.mostBytes();
    for (const [key, entry] of this.entries) {
      if (this.bytes <= most) return;
      if (!entry.isThere || key === newest) continue;
      this.entries.delete(key);
      this.bytes -= entry.size;
      this.dispose(entry.value as T);
    }
  }
}
