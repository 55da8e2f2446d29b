"use strict";
/* An image on a canvas, pointed at and marked: what the page of a click-response map and of masks share. */
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const [height, width] = data.shape;
const canvas = $("image"), pen = canvas.getContext("2d");
canvas.width = width; canvas.height = height;
const image = new Image();

function show(ready) {
  image.onload = ready;
  image.src = data.image;
}
function pixelAt(event) {
  const box = canvas.getBoundingClientRect();
  return [
    Math.floor((event.clientY - box.top) * height / box.height),
    Math.floor((event.clientX - box.left) * width / box.width),
  ];
}
function ring(y, x, ink, radius) {
  for (const [stroke, wide] of [["#000", radius / 1.6], [ink, radius / 3]]) {
    pen.strokeStyle = stroke; pen.lineWidth = wide;
    pen.beginPath(); pen.arc(x + 0.5, y + 0.5, radius, 0, 7); pen.stroke();
  }
}
