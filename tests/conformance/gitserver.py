"""A smart-HTTP git server that a suite runs inside its sandbox: PORT DIR [USER PASSWORD].

Repositories are the bare ones below DIR; with a user, everything asks for it. Nothing but Python's
and git's own parts.
"""
import base64
import http.server
import os
import subprocess
import sys

PORT, ROOT, WHO = int(sys.argv[1]), sys.argv[2], ":".join(sys.argv[3:5])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def allowed(self):
        given = self.headers.get("Authorization", "")
        if not WHO or given == "Basic " + base64.b64encode(WHO.encode()).decode():
            return True
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def serve(self):
        body = self.body()
        if not self.allowed():
            return
        path, _, query = self.path.partition("?")
        env = {**os.environ, "GIT_PROJECT_ROOT": ROOT, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "git",
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE,
                             check=False).stdout
        head, _, data = out.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        fields = {k.lower(): (k, v) for k, v in lines}
        self.send_response(int(fields.pop("status", (0, "200"))[1].split()[0]))
        for key, value in fields.values():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = serve

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
