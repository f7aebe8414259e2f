// From an image to the pixels that the model takes: the whole image, upright, on white, resized to a square as Pillow
// does it (an antialiased bilinear filter in fixed-point numbers, first along the rows), so that answers are the same.

const DIGITS = 22;
const MOST_PIXELS = 16e6; // phones draw no larger images

// Weights of the input pixels for each output pixel along one side.
function weights(from, to) {
  const scale = from / to;
  const reach = Math.max(scale, 1);
  return Array.from({length: to}, (_, place) => {
    const center = (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - reach + 0.5));
    const last = Math.min(from, Math.trunc(center + reach + 0.5));
    const shares = [];
    for (let at = first; at < last; at++) shares.push(Math.max(0, 1 - Math.abs((at - center + 0.5) / reach)));
    const total = shares.reduce((sum, share) => sum + share, 0);
    return {first, shares: shares.map((share) => Math.trunc(0.5 + (share / total) * 2 ** DIGITS))};
  });
}

// Resize one side of an image whose pixels have `step` bytes. Returns bytes RGB, row by row.
function resizeRows(values, step, width, height, size) {
  const made = new Uint8Array(size * height * 3);
  const all = weights(width, size);
  for (let row = 0; row < height; row++) {
    for (let place = 0; place < size; place++) {
      const {first, shares} = all[place];
      for (let channel = 0; channel < 3; channel++) {
        let sum = 1 << (DIGITS - 1);
        let at = (row * width + first) * step + channel;
        for (const share of shares) {
          sum += values[at] * share;
          at += step;
        }
        made[(row * size + place) * 3 + channel] = Math.min(255, sum >> DIGITS);
      }
    }
  }
  return made;
}

function resizeColumns(values, width, height, size) {
  const made = new Uint8Array(width * size * 3);
  const all = weights(height, size);
  for (let row = 0; row < size; row++) {
    const {first, shares} = all[row];
    for (let at = 0; at < width * 3; at++) {
      let sum = 1 << (DIGITS - 1);
      for (let index = 0; index < shares.length; index++) sum += values[(first + index) * width * 3 + at] * shares[index];
      made[row * width * 3 + at] = Math.min(255, sum >> DIGITS);
    }
  }
  return made;
}

// Draw something on white. Returns its size and its pixels, RGBA row by row.
function onWhite(source, width, height) {
  const smaller = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(width * smaller);
  canvas.height = Math.round(height * smaller);
  const context = canvas.getContext('2d', {willReadFrequently: true});
  context.fillStyle = 'white';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

// Return the pixels (RGB, row by row) of something that can be drawn.
function pixelsOf(source, width, height, size) {
  const image = onWhite(source, width, height);
  return resizeColumns(resizeRows(image.data, 4, image.width, image.height, size), size, image.height, size);
}

const PNG = 0x89; // first byte of the file
const TIFF = ['II*\0', 'MM\0*']; // first bytes of the file
const DEPTH_AT = 24; // place of the bits of a value in a PNG
const LARGEST_OF_12_BITS = 15; // what is left of 4095 where the browser takes it for 16 bits

// Refuse an image that stores 12 bits or fewer in 16: the browser takes its values for 16 bits, and shows them black.
async function refuseDark(file, image) {
  const head = new Uint8Array(await file.slice(0, DEPTH_AT + 1).arrayBuffer());
  const isWide = head[0] === PNG ? head[DEPTH_AT] === 16 : TIFF.includes(String.fromCharCode(...head.slice(0, 4)));
  if (!isWide) return;
  const {data} = onWhite(image, image.width, image.height);
  for (let at = 0; at < data.length; at++) if (at % 4 < 3 && data[at] > LARGEST_OF_12_BITS) return;
  throw new Error(`${file.name} stores 12 bits or fewer in 16, which this browser shows black. Save it with 8 bits.`);
}
