// Browsers start no worker for a page that is opened as a file. There the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      const tell = inside.postMessage.bind(inside)
      this.send = data => tell(data, "*")
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve())
      this.load(url).then(() => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(this.send)
      })
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script")
        script.src = url
        script.onload = done
        script.onerror = failed
        this.frame.contentDocument.body.append(script)
      })
    }

    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.send(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
