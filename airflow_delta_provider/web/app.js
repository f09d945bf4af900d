"use strict";
(() => {
  const root = document.documentElement;
  const host = (() => {
    try { return window.parent !== window && window.parent.document ? window.parent : null; } catch { return null; }
  })();
  const follow = () => {
    const theirs = host ? host.document.documentElement : null;
    const theme = ["dark", "light"].find((name) => theirs && (theirs.classList.contains(name) || theirs.dataset.theme === name));
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  };
  if (host) {
    follow();
    new MutationObserver(follow).observe(host.document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme"] });
  }
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-airflow]") : null;
    if (!link || !host || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const theirs = host.document.createElement("a");
    theirs.href = link.href;
    theirs.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
    const search = document.querySelector("[data-search]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
    const page = { n: "a[rel=next]", p: "a[rel=prev]" }[event.key];
    if (page) document.querySelector(page)?.click();
  });
})();
