// What the theme leaves out for those who use a keyboard or a screen reader.
const mend = () => {
  document.querySelectorAll("pre > code, .md-typeset__scrollwrap").forEach(box => { if (!box.hasAttribute("tabindex")) box.tabIndex = 0; });
  document.querySelectorAll(".md-search[role=dialog]").forEach(dialog => { if (!dialog.ariaLabel) dialog.ariaLabel = "Search"; });
  document.querySelectorAll(".md-code__nav").forEach(nav => nav.setAttribute("role", "presentation"));
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
