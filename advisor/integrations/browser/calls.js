// Calls functions of workers that time a file each.
'use strict';
const workers = [];

// Call a function of a series' worker. Each series has a worker, because a runtime keeps its thread count.
window.call = (name, {worker, ...options}) => new Promise((done) => {
  workers[worker] ??= new Worker('worker.js');
  workers[worker].onmessage = ({data}) => done(data);
  workers[worker].onerror = (event) => done({error: event.message || 'the worker cannot be started'});
  workers[worker].postMessage({name, options});
});
