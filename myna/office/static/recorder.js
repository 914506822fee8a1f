// Records a voice sample as a wav in the browser, and measures a recording before it is sent.
// The same file is the AudioWorklet, which collects the samples, and the script of the page.
"use strict";

if (typeof AudioWorkletProcessor === "function") {
  /** Sends the sound of the first channel to the page, some 20 times a second. */
  registerProcessor("collect", class extends AudioWorkletProcessor {
    constructor() {
      super();
      this.parts = new Float32Array(Math.ceil(sampleRate / 20 / 128) * 128);
      this.filled = 0;
    }

    process(inputs) {
      const sound = inputs[0][0];
      if (!sound) return true;
      this.parts.set(sound, this.filled);
      this.filled += sound.length;
      if (this.filled === this.parts.length) {
        this.port.postMessage(this.parts.slice());
        this.filled = 0;
      }
      return true;
    }
  });
} else {
  document.addEventListener("DOMContentLoaded", () => new Recorder(document.getElementById("recorder")));
}

const CLIPPED = 0.999;
const CLIPPED_SHARE_MAX = 0.001;
const QUIET = 0.01;  // below it a twentieth of a second is silent
const PEAK_MIN = 0.02;
const VOICE_MIN_S = 2;

/** The recorder of the page: its buttons, its meter, and the file input that it fills. */
class Recorder {
  constructor(root) {
    this.root = root;
    this.min = Number(root.dataset.min);
    this.max = Number(root.dataset.max);
    this.bytes = Number(root.dataset.bytes);
    this.file = by("sample");
    by("record").addEventListener("click", () => this.start());
    by("stop").addEventListener("click", () => this.stop());
    this.file.addEventListener("change", () => this.measure(this.file.files[0]));
    by("language").addEventListener("change", () => this.offerText());
    by("use-text").addEventListener("click", () => { by("transcript").value = this.text() ?? ""; });
    this.offerText();
    if (!navigator.mediaDevices || !window.AudioWorkletNode) this.refuse("insecure");
  }

  /** The text to read aloud in the chosen language, if there is one. */
  text() {
    const language = by("language").value;
    return this.root.querySelector(`[data-language="${language}"] .script-text`)?.textContent;
  }

  offerText() {
    for (const one of this.root.querySelectorAll("[data-language]")) {
      one.hidden = one.dataset.language !== by("language").value;
    }
    by("use-text").hidden = !this.text();
  }

  refuse(why) {
    const told = by("no-microphone");
    told.textContent = told.dataset[why];
    told.hidden = false;
    by("record").disabled = why === "insecure";
  }

  async start() {
    by("no-microphone").hidden = true;
    by("record").disabled = true;
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({
        audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false },
      });
    } catch {
      by("record").disabled = false;
      this.refuse("refused");
      return;
    }
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule(this.root.dataset.worklet);
    this.parts = [];
    this.seconds = 0;
    const node = new AudioWorkletNode(this.context, "collect", { numberOfOutputs: 0 });
    node.port.onmessage = (event) => this.collect(event.data);
    this.context.createMediaStreamSource(this.stream).connect(node);
    this.show(true);
  }

  collect(sound) {
    if (!this.context) return;
    this.parts.push(sound);
    this.seconds += sound.length / this.context.sampleRate;
    by("level").value = peakOf(sound);
    by("clock").textContent = `${this.seconds.toFixed(1)} s`;
    if (this.seconds >= this.max - 0.5) this.stop();
  }

  stop() {
    if (!this.context) return;
    const rate = this.context.sampleRate;
    this.context.close();
    this.context = null;
    for (const track of this.stream.getTracks()) track.stop();
    this.show(false);
    const file = new File([wav(this.parts, rate)], "recording.wav", { type: "audio/wav" });
    const chosen = new DataTransfer();
    chosen.items.add(file);
    this.file.files = chosen.files;
    this.measure(file);
  }

  show(recording) {
    by("record").hidden = recording;
    by("record").disabled = false;
    by("stop").hidden = !recording;
    by("clock").hidden = !recording;
    by("level-field").hidden = !recording;
    if (recording) by("measured").hidden = true;
  }

  /** Shows length, loudness, clipping and silence of a recording. The site checks again. */
  async measure(file) {
    by("measured").hidden = !file;
    if (!file) return;
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = URL.createObjectURL(file);
    by("listen").src = this.url;
    if (file.size > this.bytes) { this.judge("large"); return; }
    const context = new OfflineAudioContext(1, 1, 48000);
    let sound;
    try {
      sound = await context.decodeAudioData(await file.arrayBuffer());
    } catch {
      by("verdict").textContent = "";  // this browser can't decode the format; the site may
      return;
    }
    const found = measured(sound.getChannelData(0), sound.sampleRate);
    by("length").textContent = `${found.seconds.toFixed(1)} s`;
    by("peak").textContent = found.peak ? `${(20 * Math.log10(found.peak)).toFixed(0)} dB` : "−∞ dB";
    by("clipped").textContent = `${(found.clipped * 100).toFixed(1)} %`;
    by("silent").textContent = `${(found.silent * 100).toFixed(0)} %`;
    this.judge(this.verdict(found));
  }

  verdict(found) {
    if (found.seconds < this.min) return "short";
    if (found.seconds > this.max) return "long";
    if (found.peak < PEAK_MIN) return "quiet";
    if (found.clipped > CLIPPED_SHARE_MAX) return "clipped";
    if ((1 - found.silent) * found.seconds < VOICE_MIN_S) return "pauses";
    return "good";
  }

  judge(verdict) {
    const told = by("verdict");
    told.textContent = told.dataset[verdict];
    told.className = verdict === "good" ? "small good" : "small bad";
  }
}

function by(id) {
  return document.getElementById(id);
}

function peakOf(sound) {
  let peak = 0;
  for (const sample of sound) peak = Math.max(peak, Math.abs(sample));
  return peak;
}

/** Seconds, peak (0 to 1), the share of clipped samples, the share of silent twentieths of a second. */
function measured(sound, rate) {
  const step = Math.round(rate / 20);
  let clipped = 0, silent = 0, peak = 0, frames = 0;
  for (const sample of sound) if (Math.abs(sample) >= CLIPPED) clipped += 1;
  for (let at = 0; at + step <= sound.length; at += step, frames += 1) {
    const loudest = peakOf(sound.subarray(at, at + step));
    peak = Math.max(peak, loudest);
    if (loudest < QUIET) silent += 1;
  }
  return { seconds: sound.length / rate, peak, clipped: clipped / sound.length, silent: silent / (frames || 1) };
}

/** The parts as a mono wav of 16 bits. */
function wav(parts, rate) {
  const samples = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + samples * 2));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + samples * 2, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, samples * 2, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      at += 2;
    }
  }
  return view.buffer;
}
