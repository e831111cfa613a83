// Keeps a page up to date: draws it again, with its own code, whenever the server tells of a round.
{
  const holder = document.getElementById("data"), main = document.getElementById("main"), footer = document.getElementById("footer");
  const code = [...document.scripts].find(script => script.textContent.includes("// ---- the page")).textContent;
  const line = Object.assign(document.createElement("p"), { id: "live", className: "lead" });
  line.setAttribute("role", "status");
  line.style.cssText = "max-width: 1120px; margin: .6rem auto; padding: 0 24px";
  document.body.prepend(line);
  let listeners = new AbortController();
  window.within = () => ({ signal: listeners.signal });
  const draw = data => {
    const height = scrollY;
    holder.textContent = JSON.stringify(data);
    listeners.abort(); listeners = new AbortController();
    main.replaceChildren(...main.querySelectorAll("noscript")); footer.replaceChildren();
    const again = document.createElement("script");
    again.textContent = `{ const addEventListener = (kind, action, options) => window.addEventListener(kind, action, { ...options, ...within() });\n${code}\n}`;
    document.body.append(again); again.remove();
    scrollTo(0, height);
  };
  const source = new EventSource("events");
  const hear = event => {
    const { state, data } = JSON.parse(event.data);
    line.textContent = `Live: ${state.text}`;
    if (data) draw(data);
    if (state.finished) { source.close(); line.remove(); }
  };
  source.addEventListener("round", hear);
  source.addEventListener("state", hear);
  source.addEventListener("error", () => { line.textContent = "Live: the connection is lost; trying again ..."; });
}
