// Keeps a page up to date: draws it again, with its own code, whenever the server tells of a round.
{
  const holder = document.getElementById("data"), main = document.getElementById("main"), footer = document.getElementById("footer");
  const code = [...document.scripts].find(script => script.textContent.includes("// ---- the page")).textContent;
  const make = (tag, more) => Object.assign(document.createElement(tag), more);
  const panel = make("aside", { id: "live" }), line = make("p", { id: "state", className: "lead" }), facts = make("dl", { className: "facts" });
  panel.setAttribute("aria-label", "The run at this moment");
  line.setAttribute("role", "status");
  panel.append(line, facts);
  document.body.prepend(panel);
  const show = ({ text, facts: pairs }) => {
    line.textContent = `Live: ${text}`;
    facts.hidden = !pairs.length;
    facts.replaceChildren(...pairs.map(([name, value]) => {
      const pair = make("div");
      pair.append(make("dt", { textContent: name }), make("dd", { textContent: value }));
      return pair;
    }));
  };
  let listeners = new AbortController();
  window.within = () => ({ signal: listeners.signal });
  const draw = data => {
    const height = scrollY, focused = document.activeElement?.id, aside = [...main.querySelectorAll(".scroll")].map(box => box.scrollLeft);
    holder.textContent = JSON.stringify(data);
    listeners.abort(); listeners = new AbortController();
    main.replaceChildren(...main.querySelectorAll("noscript")); footer.replaceChildren();
    const again = document.createElement("script");
    again.textContent = `{ const addEventListener = (kind, action, options) => window.addEventListener(kind, action, { ...options, ...within() });\n${code}\n}`;
    document.body.append(again); again.remove();
    main.querySelectorAll(".scroll").forEach((box, k) => { box.scrollLeft = aside[k] ?? 0; });
    document.getElementById(focused)?.focus({ preventScroll: true });
    scrollTo(0, height);
  };
  const source = new EventSource("events");
  const hear = event => {
    const { state, data } = JSON.parse(event.data);
    show(state);
    window.underway = !state.finished;
    if (data) draw(data);
    if (state.finished) { source.close(); panel.remove(); }
  };
  source.addEventListener("round", hear);
  source.addEventListener("state", hear);
  source.addEventListener("error", () => { line.textContent = "Live: the connection is lost; trying again ..."; });
}
