"""An API that answers what a test tells it, for replies a live daemon gives only in bad luck."""
import http.server
import json
import ssl
import threading


class Fake:
    """answers: {"METHOD /path": (status, JSON)}; what was asked is in asked. cert: PEM of key and chain, for TLS."""

    def __init__(self, answers, cert=None):
        self.asked, self.keys = [], []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.split("?")[0]
                fake.asked.append(f"{self.command} {path}")
                fake.keys.append(self.headers.get("Authorization"))
                status, reply = answers.get(f"{self.command} {path}", (404, {
                    "message": f"no such route: {self.command} {path}"}))
                body = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if cert:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(cert)
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.base = f"http{'s' if cert else ''}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
