"use strict";
// Unpacks what the page carries compressed. The drawing library is put into the page as a script of its own, which the
// page's policy lets run by its hash alone.
window.unpacked = (async () => {
  const inflate = async (id) => {
    const packed = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const [library, rows] = await Promise.all([inflate("packed-plotly"), inflate("run-data")]);
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);
  return JSON.parse(rows);
})();
