// Templates: htm bound to Preact. Every value that a template shows becomes a text node or a property, never markup.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, Fragment, render } from "../vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal } from "../vendor/signals.js";
export const html = htm.bind(h);
