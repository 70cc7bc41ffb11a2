// What the whole page shares: who is signed in, the live connection, notices, the theme.
import { computed, signal } from "./html.js";

export const me = signal(undefined); // undefined: not asked yet; null: nobody is signed in
export const liveState = signal("connecting");
export const openInterrupts = signal(0);
export const toasts = signal([]);
export const paletteOpen = signal(false);
export const helpOpen = signal(false);
export const theme = signal(localStorage.getItem("holdfast.theme") ?? "auto");
export const now = signal(Date.now());

const TOAST_MS = 8000;
let nextToast = 1;

export function toast(text, kind = "info") {
  const id = nextToast++;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(() => {
    toasts.value = toasts.value.filter((one) => one.id !== id);
  }, TOAST_MS);
}

export function may(scope) {
  return Boolean(me.value?.scopes.includes(scope));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => {
  systemDark.value = dark.matches;
});
export const isDark = computed(() => (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

export function setTheme(name) {
  theme.value = name;
  localStorage.setItem("holdfast.theme", name);
}

// Relative times are repainted together.
setInterval(() => {
  now.value = Date.now();
}, 10000);
