/** The last things asked for, up to so many bytes; what is being fetched is fetched once. */

export class Cache<T> {
  private readonly kept = new Map<string, { value: Promise<T>; bytes: number }>();
  private bytes = 0;

  constructor(
    private readonly most: number,
    private readonly size: (value: T) => number,
  ) {}

  get(key: string, make: () => Promise<T>): Promise<T> {
    const found = this.kept.get(key);
    if (found !== undefined) {
      this.kept.delete(key);
      this.kept.set(key, found);
      return found.value;
    }
    const entry = { value: make(), bytes: 0 };
    this.kept.set(key, entry);
    entry.value.then(
      (value) => {
        if (this.kept.get(key) !== entry) return;
        entry.bytes = this.size(value);
        this.bytes += entry.bytes;
        for (const [oldest, { bytes }] of this.kept) {
          if (this.bytes <= this.most || oldest === key) break;
          this.kept.delete(oldest);
          this.bytes -= bytes;
        }
      },
      () => {
        if (this.kept.get(key) === entry) this.kept.delete(key);
      },
    );
    return entry.value;
  }
}
