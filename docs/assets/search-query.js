// The theme's search fails on a word that ends with an operator of its query language, such as "hold-" on the way to
// "hold-out", and excludes what follows "--", such as an option's name. Readers type words: the operators become spaces.
"use strict";
(() => {
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const query = typeof message?.data === "string";
    send.call(this, query ? { ...message, data: message.data.replace(/[-+~^:*\\]+/g, " ") } : message, ...rest);
  };
})();
