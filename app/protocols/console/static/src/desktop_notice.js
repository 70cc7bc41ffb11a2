// Desktop notifications for what waits for a person, once they are allowed. The text is a tool's name, never its
// arguments.
export const supported = "Notification" in globalThis;
export const granted = () => supported && Notification.permission === "granted";

export async function askPermission() {
  return supported && (await Notification.requestPermission()) === "granted";
}

export function announce(interrupt) {
  if (!granted() || !document.hidden || !interrupt) return;
  const shown = new Notification("Holdfast needs a decision", {
    body: interrupt.tool ? `${interrupt.kind}: ${interrupt.tool}` : interrupt.kind,
    tag: interrupt.id,
  });
  shown.onclick = () => {
    window.focus();
    location.hash = `#/inbox/${encodeURIComponent(interrupt.id)}`;
  };
}
