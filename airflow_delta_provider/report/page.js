"use strict";
(() => {
  const records = Array.from(document.querySelectorAll(".record"));
  const search = document.getElementById("search");
  const category = document.getElementById("category");
  const column = document.getElementById("column");
  const count = document.getElementById("count");
  if (!search || !category || !column || !count) return;
  const said = count.dataset.all;
  const columnsOf = (record) => JSON.parse(record.dataset.columns);
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const record of records) {
      const text = record.dataset.text;
      const fits = words.every((word) => text.includes(word))
        && (!category.value || record.dataset.category === category.value)
        && (!column.value || columnsOf(record).includes(column.value));
      record.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown === records.length ? said : shown + " of the records on this page fit. " + said;
  };
  for (const control of [search, category, column]) control.addEventListener("input", apply);
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape" && event.target === search) { search.value = ""; apply(); }
  });
  document.querySelector(".filter").hidden = false;
  apply();
})();
