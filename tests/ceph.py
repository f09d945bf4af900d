"""A real S3 server for tests: one monitor, one disk in memory and one gateway of Ceph, on loopback, without root's rights."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import servers
import sigv4

from airflow_delta_provider.demo.servers import free_port, run_as, running, server_folder, write_private

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")

SETTINGS = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port}/0]
public addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr1 = false
ms bind port min = {port_min}
ms bind port max = {port_max}
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
pid file = {folder}/run/$name.pid
crash dir = {folder}/run
log to file = false
log to stderr = true
err to stderr = true
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd class update on start = false
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
mon data avail warn = 1
paxos propose interval = 0.05
paxos min wait = 0.01
debug none = 0/0
debug rgw = 0/0
debug ms = 0/0
rgw enable apis = s3
rgw frontends = beast endpoint=127.0.0.1:{gateway} tcp_nodelay=1
rgw thread pool size = 32
rgw gc max objs = 1
rgw lc max objs = 1
rgw usage max shards = 1
rgw objexp hints num shards = 1
rgw override bucket index max shards = 1
rgw run sync thread = false
rgw dynamic resharding = false
rgw enable quota threads = false
"""
"""One placement group a pool, one copy, small proposals at once: a cluster that lives for minutes is up in seconds."""


@dataclass
class S3Server:
    """A running server and how to reach it."""

    endpoint: str
    keys: tuple[str, str]
    names: list[int] = field(default_factory=lambda: [0])

    @property
    def options(self) -> dict[str, str]:
        """What a connection says to reach it."""
        return {
            "access_key_id": self.keys[0],
            "endpoint": self.endpoint,
            "region": sigv4.REGION,
            "secret_access_key": self.keys[1],
        }

    @property
    def environment(self) -> dict[str, str]:
        """What the environment says to reach it."""
        return {
            "AWS_ACCESS_KEY_ID": self.keys[0],
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": sigv4.REGION,
            "AWS_SECRET_ACCESS_KEY": self.keys[1],
        }

    def bucket(self, headers: Mapping[str, str] | None = None) -> str:
        """Make a bucket and return its name."""
        self.names[0] += 1
        name = f"deltas-{os.getpid()}-{self.names[0]}"
        status, body = self.send("PUT", f"/{name}", headers=headers)
        if status != 200:
            raise RuntimeError(f"No bucket {name}: {status} {body!r}")
        return name

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[int, bytes]:
        """Send any signed request, as an administrator of the storage could."""
        return sigv4.request(self.endpoint, self.keys, method, path, query, headers, body)


def programs() -> dict[str, str] | None:
    """Return the paths of all programs, None where one is missing."""
    found = {name: shutil.which(name, path=PATH) for name in PROGRAMS}
    return {name: str(path) for name, path in found.items()} if all(found.values()) else None


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run Ceph's S3 gateway (Debian: ``ceph-mon``, ``ceph-osd``, ``radosgw``) and stop it at the end."""
    installed = programs()
    if installed is None:
        servers.lacking("Ceph's S3 gateway")
    with server_folder("ceph") as (folder, user):
        mon_port, port_min, gateway, fsid = free_port(), free_port(), free_port(), str(uuid.uuid4())
        for name in ("mon", "osd", "run"):
            (folder / name).mkdir()
            if user:
                os.chown(folder / name, (folder).stat().st_uid, -1)
        settings = SETTINGS.format(
            fsid=fsid, folder=folder, gateway=gateway, port=mon_port, port_max=port_min + 200, port_min=port_min
        )
        conf = folder / "ceph.conf"
        write_private(conf, settings, user)

        def run(name: str, *arguments: str) -> None:
            run_as([installed[name], *arguments], user, folder)

        def forever(name: str, *arguments: str) -> list[str]:
            return [installed[name], "-f", "-c", str(conf), *arguments]

        keyring, monmap, disk = folder / "keyring", folder / "monmap", str(uuid.uuid4())
        run("ceph-authtool", "--create-keyring", str(keyring), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        everything = ["--cap", "mon", "allow *", "--cap", "osd", "allow *"]
        run("ceph-authtool", str(keyring), "--gen-key", "-n", "client.admin", *everything)
        run("ceph-authtool", str(keyring), "--gen-key", "-n", "osd.0", *everything)
        address = f"[v2:127.0.0.1:{mon_port}/0]"
        run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", address, str(monmap))
        run("ceph-mon", "-c", str(conf), "--mkfs", "-i", "a", "--monmap", str(monmap), "--keyring", str(keyring))
        keys = (secrets.token_hex(10).upper(), secrets.token_hex(20))
        with running(
            folder, user, lambda _: forever("ceph-mon", "-i", "a"), lambda _: _listens(mon_port), signal.SIGTERM
        ):
            run("ceph", "-c", str(conf), "--connect-timeout", "30", "osd", "new", disk)
            run("ceph-osd", "-c", str(conf), "-i", "0", "--mkfs", "--osd-uuid", disk)
            with running(folder, user, lambda _: forever("ceph-osd", "-i", "0"), lambda _: True, signal.SIGTERM):
                account = [
                    "--uid",
                    "delta",
                    "--display-name",
                    "delta",
                    "--access-key",
                    keys[0],
                    "--secret-key",
                    keys[1],
                ]
                run("radosgw-admin", "-c", str(conf), "user", "create", *account, "--max-buckets", "0")
                command = forever("radosgw", "-n", "client.admin")
                with running(folder, user, lambda _: command, lambda _: _answers(gateway), signal.SIGTERM):
                    yield S3Server(f"http://127.0.0.1:{gateway}", keys)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return int(answer.status) == 200
    except (OSError, urllib.error.URLError):
        return False
