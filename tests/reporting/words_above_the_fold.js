// The words above the fold; a name that may be broken at its underscores is one.
() => [...document.querySelectorAll("body *")].flatMap((one) => [...one.childNodes]
  .filter((node) => node.nodeType === Node.TEXT_NODE)
  .flatMap((node) => [...node.textContent.matchAll(/\S*[\p{L}\p{N}]\S*/gu)].filter((word) => {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getBoundingClientRect();
    const begun = word.index === 0 && node.previousSibling?.tagName === "WBR";
    return !begun && !one.closest(".skip, .sr, script, style") && one.checkVisibility({contentVisibilityAuto: true}) &&
      box.width > 0 && box.top < innerHeight && box.left < innerWidth;
  }))).map((word) => word[0])
