/** What a browser may forbid: keeping texts for the next time, and copying. */

/** Do something that a browser may forbid; null where it does. */
function allowed<T>(act: () => T): T | null {
  try {
    return act();
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}

export function kept(key: string): string | null {
  return allowed(() => localStorage.getItem(key));
}

export function keep(key: string, text: string): void {
  allowed(() => localStorage.setItem(key, text));
}

/** Copy a text; false where that is forbidden. */
export async function copied(text: string): Promise<boolean> {
  const failed = (error: unknown) => {
    if (error instanceof DOMException) return false;
    throw error;
  };
  return navigator.clipboard.writeText(text).then(() => true, failed);
}
