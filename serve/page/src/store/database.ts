// Conversations in the browser's own database. Where that is forbidden they last as long as the page.
import type { Conversation } from "./conversation";

const STORE = "conversations";
let opened: Promise<IDBDatabase | undefined> | undefined;

function open(): Promise<IDBDatabase | undefined> {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open("pumex", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(undefined);
    } catch {
      resolve(undefined);
    }
  });
  return opened;
}

/** Does something with the store, and resolves when that is on disk. */
async function within<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  const database = await open();
  if (!database) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}

export async function readAll(): Promise<Conversation[]> {
  return (await within<Conversation[]>("readonly", (store) => store.getAll())) ?? [];
}

export async function write(conversation: Conversation): Promise<void> {
  await within("readwrite", (store) => store.put(conversation));
}

export async function erase(id: string): Promise<void> {
  await within("readwrite", (store) => store.delete(id));
}
