"use strict";
// Unpacks what the page carries compressed. The drawing library is put into the page as a script of its own, which the
// page's policy lets run by its hash alone. It takes a second on a slow phone, so it waits until a plot is asked for.
(() => {
  const inflate = async (id) => {
    const packed = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const loadLibrary = async () => {
    const script = document.createElement("script");
    script.textContent = await inflate("packed-plotly");
    document.head.append(script);
  };
  let library = null;
  window.unpackLibrary = () => (library ??= loadLibrary());
  window.unpacked = inflate("run-data").then(JSON.parse);
})();
