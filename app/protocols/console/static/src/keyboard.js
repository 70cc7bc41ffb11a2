// Keys that hold everywhere. A page adds its own with `useKeys`; whoever types in a field is left alone.
import { useEffect, useRef } from "./html.js";
import { go } from "./router.js";
import { helpOpen, paletteOpen } from "./state.js";

let destinations = {};
const SEQUENCE_MS = 5000; // from one key to the next, as they were pressed: a busy page does not lose the second
const pageKeys = new Set();

function typing(event) {
  const target = event.target;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const handler = (key, event) => {
      const action = latest.current[key];
      if (!action) return false;
      action(event);
      return true;
    };
    pageKeys.add(handler);
    return () => pageKeys.delete(handler);
  }, []);
}

// `pages` have a path and the letter that follows `g`.
export function installKeys(pages) {
  destinations = Object.fromEntries(pages.map((page) => [page.key, page.path]));
  let since = -Infinity;
  const pressed = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      paletteOpen.value = !paletteOpen.value;
      return;
    }
    if (event.key === "Escape") {
      paletteOpen.value = false;
      helpOpen.value = false;
    }
    if (typing(event) || event.ctrlKey || event.metaKey || event.altKey || paletteOpen.value) return;
    if (event.timeStamp - since < SEQUENCE_MS && destinations[event.key]) {
      since = -Infinity;
      go(destinations[event.key]);
      return;
    }
    if (event.key === "g") {
      since = event.timeStamp;
      return;
    }
    if (event.key === "?") {
      helpOpen.value = !helpOpen.value;
      return;
    }
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
        return;
      }
    }
    for (const handler of [...pageKeys].reverse()) if (handler(event.key, event)) return;
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}
