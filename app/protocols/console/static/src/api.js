// Calls of the HTTP API. The session is an HttpOnly cookie: this file only adds the CSRF token of changes.
import { me, toast } from "./state.js";

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "UNKNOWN";
    this.remedy = problem.remedy ?? "";
    this.issues = problem.issues ?? [];
  }
}

export function address(path, query) {
  const given = Object.entries(query ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== undefined && one !== null && one !== "")
      .map((one) => [name, one]),
  );
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export async function request(method, path, { query, body, raw, headers, signal } = {}) {
  const sent = new Headers(headers ?? {});
  if (method !== "GET" && me.value?.csrfToken) sent.set("x-csrf-token", me.value.csrfToken);
  if (body !== undefined) sent.set("content-type", "application/json");
  const content = body !== undefined ? JSON.stringify(body) : raw;
  const answer = await fetch(address(path, query), {
    method,
    headers: sent,
    body: content,
    signal,
    credentials: "same-origin",
  });
  if (answer.ok) return answer;
  let problem = {};
  try {
    problem = (await answer.json()).error ?? {};
  } catch {
    /* the answer is not JSON: the status has to do */
  }
  if (typeof problem === "string") problem = { message: problem };
  if (answer.status === 401 && path !== "/api/sign-in") me.value = null;
  throw new ApiError(answer.status, problem);
}

async function json(method, path, options) {
  const answer = await request(method, path, options);
  return answer.status === 204 ? null : answer.json();
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body = {}, query) => json("POST", path, { body, query });
export const patch = (path, body) => json("PATCH", path, { body });
export const remove = (path, query) => json("DELETE", path, { query });
export const text = async (path, query) => (await request("GET", path, { query })).text();

function sentence(said) {
  const text = said.trim();
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

// What is wrong where, if the server lists it; else what happened and what to do.
export function explain(error) {
  if (!(error instanceof ApiError)) return String(error?.message ?? error);
  const places = error.issues.map((one) => sentence(`${one.path} ${one.message}`));
  return [sentence(error.message), ...(places.length ? places : [sentence(error.remedy)])].filter(Boolean).join(" ");
}

// For buttons: what fails is shown, and gives undefined.
export async function attempt(action, done) {
  try {
    const value = await action();
    if (done) toast(done, "ok");
    return value ?? null;
  } catch (error) {
    if (error?.name !== "AbortError") toast(explain(error), "bad");
    return undefined;
  }
}

export async function signIn(key) {
  me.value = await json("POST", "/api/sign-in", { headers: key ? { authorization: `Bearer ${key}` } : {} });
}

// The same session, acting in another tenant from now on.
export async function signInto(tenant) {
  await json("POST", "/api/sign-in", { query: { tenant } });
}

export async function signOut() {
  await attempt(() => request("POST", "/api/sign-out"));
  me.value = null;
}

export async function identify() {
  try {
    me.value = await get("/api/me");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) me.value = null;
    else throw error;
  }
}
