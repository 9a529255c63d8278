# Tries every way to a file with the setuid or setgid bit that the kernel
# offers, and prints for each the error or "ok".
import ctypes, errno, json, mmap, os, platform, signal, stat, struct, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
AMD64 = platform.machine() == "x86_64"
NR = dict(zip(
    ("open", "openat", "creat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "seccomp", "openat2", "io_uring_setup"),
    (2, 257, 85, 133, 259, 90, 91, 268, 452, 317, 437, 425) if AMD64 else
    (None, 56, None, None, 33, None, 52, 53, 452, 277, 437, 425)))
CWD, NOFOLLOW, EMPTY = -100, 0x100, 0x1000
results = {}


def call(nr, *args):
    """Makes a system call; returns its result, or the error's number below 0."""
    n = libc.syscall(ctypes.c_long(nr), *[
        ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args])
    return -ctypes.get_errno() if n < 0 else n


def note(name, result):
    results[name] = "ok" if result >= 0 else errno.errorcode[-result]
    return result


def attempt(name, nr, *args):
    """Notes the result of a call that this architecture, or the engine's own
    filter, may not have."""
    result = -errno.ENOSYS if NR[nr] is None else call(NR[nr], *args)
    if NR[nr] is None or nr == "fchmodat2" and result == -errno.ENOSYS:
        results[name] = None
        return result
    return note(name, result)


def make(name, mode=0o600):
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(fd, mode)
    return fd


def mode(name):
    return stat.S_IMODE(os.lstat(name).st_mode)


def expect(name, file, want):
    results[name] = "ok" if mode(file) == want else oct(mode(file))


def in_child(name, f):
    """Runs f, which returns a result, in a process of its own."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(w, struct.pack("q", f()))
        finally:
            os._exit(0)
    os.close(w)
    data = os.read(r, 8)
    os.close(r)
    _, status = os.waitpid(pid, 0)
    if data:
        note(name, struct.unpack("q", data)[0])
    else:
        results[name] = "signal %d" % os.WTERMSIG(status)


def changes():
    fd = make("changed")
    for name, args in {
        "chmod": (b"changed", 0o4711),
        "fchmod": (fd, 0o6722),
        "fchmodat": (CWD, b"changed", 0o2733),
        "fchmodat2": (CWD, b"changed", 0o4744, 0),
    }.items():
        if attempt(name, name, *args) >= 0:
            expect(name + " sets the rest", "changed", next(a for a in args if a not in (fd, CWD, b"changed", 0)) & 0o777)
    root = os.open(".", os.O_RDONLY)
    attempt("fchmodat below a directory", "fchmodat", root, b"changed", 0o4700)
    attempt("fchmodat by an absolute path", "fchmodat", CWD, os.path.abspath("changed").encode(), 0o4701)
    expect("it was that file", "changed", 0o701)
    if attempt("fchmodat2 without a path", "fchmodat2", fd, b"", 0o4750, EMPTY) >= 0:
        expect("it was the descriptor", "changed", 0o750)
    attempt("by /proc/self/fd", "fchmodat", CWD, b"/proc/self/fd/%d" % fd, 0o4751)
    expect("it was that descriptor", "changed", 0o751)
    path = os.open("changed", os.O_PATH)
    attempt("by /proc/self/fd of a handle", "fchmodat", CWD, b"/proc/self/fd/%d" % path, 0o4752)
    os.symlink(os.path.abspath("changed"), "link")
    attempt("through an absolute link", "fchmodat", CWD, b"link", 0o4753)
    expect("it was the target", "changed", 0o753)
    attempt("a link itself", "fchmodat2", CWD, b"link", 0o4755, NOFOLLOW)
    os.mkdir("directory")
    attempt("a directory", "fchmodat", CWD, b"directory", 0o2775)
    expect("the directory sets the rest", "directory", 0o775)
    attempt("a directory of the user's", "fchmodat", CWD, b"shared", 0o2750)
    attempt("through /proc/self/cwd", "fchmodat", CWD, b"/proc/self/cwd/changed", 0o4755)
    attempt("through /proc/self/root", "fchmodat", CWD, b"/proc/self/root/etc/passwd", 0o4755)
    attempt("the guest's program", "fchmodat", CWD, b"/proc/1/exe", 0o4755)
    attempt("what the guest has open", "fchmodat", CWD, b"/proc/1/fd/4", 0o4755)


def errors():
    attempt("no such file", "fchmodat", CWD, b"nothing", 0o4755)
    attempt("no path", "fchmodat", CWD, b"", 0o4755)
    attempt("no memory", "fchmodat", CWD, 16, 0o4755)
    attempt("no directory", "fchmodat", CWD, b"changed/x", 0o4755)
    attempt("no descriptor", "fchmod", 999, 0o4755)
    attempt("no directory's descriptor", "fchmodat", 999, b"x", 0o4755)
    attempt("a long path", "fchmodat", CWD, b"x" * 5000, 0o4755)
    attempt("unknown flags", "fchmodat2", CWD, b"changed", 0o4755, 0x40)
    os.symlink("loop", "loop")
    attempt("a loop of links", "fchmodat", CWD, b"loop", 0o4755)


def creations():
    os.umask(0o027)
    new = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    fd = attempt("openat creates", "openat", CWD, b"created", new, 0o4755)
    results["it can be written"] = "ok" if os.write(fd, b"x") == 1 else "no"
    results["it is kept at exec"] = "ok" if os.get_inheritable(fd) else "no"
    expect("openat sets the rest", "created", 0o750)
    os.umask(0)
    fd = attempt("openat creates, any mask", "openat", CWD, b"created2", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o6777)
    results["it is closed at exec"] = "no" if os.get_inheritable(fd) else "ok"
    expect("openat sets the rest, any mask", "created2", 0o777)
    attempt("openat of what exists", "openat", CWD, b"created", os.O_CREAT | os.O_WRONLY, 0o4755)
    attempt("openat exclusively of what exists", "openat", CWD, b"created", new, 0o4755)
    os.mkfifo("pipe")
    attempt("openat of a pipe", "openat", CWD, b"pipe", os.O_CREAT | os.O_WRONLY, 0o4755)
    attempt("open creates", "open", b"created3", new, 0o4755)
    attempt("creat", "creat", b"created4", 0o2755)
    fd = attempt("openat without a name", "openat", CWD, b".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    note("a name for it", call(265 if AMD64 else 37, CWD, b"/proc/self/fd/%d" % fd, CWD, b"named", 0x400))
    expect("what was named has the rest", "named", 0o755)
    attempt("mode is rubbish", "openat", CWD, b"created", os.O_RDONLY, 0o7777)
    attempt("mode is rubbish, a directory", "openat", CWD, b"directory", os.O_RDONLY | os.O_DIRECTORY, -1)
    attempt("mknod", "mknod", b"node", stat.S_IFREG | 0o4755, 0)
    attempt("mknodat", "mknodat", CWD, b"node", stat.S_IFREG | 0o2755, 0)
    os.mkdir("made", 0o6777)
    expect("mkdir", "made", 0o777)


def ways_around():
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    attempt("openat2", "openat2", CWD, b"around", how, len(how))
    attempt("io_uring", "io_uring_setup", 8, b"\0" * 120)
    code = struct.pack("HBBI", 6, 0, 0, 0x7FC00000)  # have all calls answered by us
    buf = ctypes.create_string_buffer(code)
    prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(buf)))
    attempt("a listener of its own", "seccomp", 1, 8, ctypes.addressof(prog))
    note("a call of tomorrow", call(600))
    if AMD64:
        note("x32", call(0x40000000 + NR["chmod"], b"changed", 0o4755))
        in_child("int 0x80", lambda: int80(15, b"changed", 0o4755))
    else:
        results["x32"] = results["int 0x80"] = None


def int80(nr, path, mode):
    """Makes a call by the interface of i386."""
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, -1, 0)
    code = b"\x53\xb8" + struct.pack("I", nr) + b"\xbb" + struct.pack("I", at + 256) + \
        b"\xb9" + struct.pack("I", mode) + b"\xcd\x80\x5b\xc3"
    ctypes.memmove(at, code, len(code))
    ctypes.memmove(at + 256, path + b"\0", len(path) + 1)
    return ctypes.CFUNCTYPE(ctypes.c_int)(at)()


def other_callers():
    if os.getuid() != 0:
        return
    make("theirs")
    os.chown("theirs", 1234, 1234)
    def as_user(file):
        os.setgroups([])
        os.setgid(1234)
        os.setuid(1234)
        return call(NR["fchmodat"], CWD, file, 0o4755)
    in_child("another user, his own", lambda: as_user(b"theirs"))
    in_child("another user, root's", lambda: as_user(b"changed"))
    def without_capabilities():
        header, data = struct.pack("Ii", 0x20080522, 0), b"\0" * 24
        libc.capset(header, data)
        return call(NR["fchmodat"], CWD, b"theirs", 0o4755)
    in_child("root without capabilities", without_capabilities)
    def in_another_group():
        os.setegid(1234)
        return call(NR["openat"], CWD, b"of a group", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o2755)
    in_child("a creation in another group", in_another_group)
    def hidden():
        libc.prctl(4, 0, 0, 0, 0)
        return call(NR["fchmodat"], CWD, b"changed", 0o4755)
    in_child("a process that nobody may look into", hidden)


def switched(name, code, uid=1234, groups="--clear-groups"):
    """Notes how code went that a user runs whom a program has switched to."""
    user = ["setpriv", "--reuid", str(uid), "--regid", "1234", groups]
    code = "import os\ntry:\n    %s\n    print('ok')\nexcept OSError as e:\n    print(__import__('errno').errorcode[e.errno])" % code
    done = subprocess.run([*user, sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    results[name] = done.stdout.strip()


def switched_users():
    if os.getuid() != 0:
        return
    for name in ("home", "closed", "of-a-group"):
        os.mkdir(name)
        make(name + "/his")
        os.chown(name + "/his", 1234, 1234)
        make(name + "/root's", 0o666)
    os.chown("home", 1234, 1234)
    os.chown("of-a-group", 0, 5555)
    os.chmod("closed", 0o700)
    os.chmod("of-a-group", 0o750)
    os.symlink("../changed", "home/link")
    switched("a switched user, his own", "os.chmod('home/his', 0o6755)")
    expect("his own has the rest", "home/his", 0o755)
    switched("a switched user, by descriptor", "os.fchmod(os.open('home/his', os.O_RDONLY), 0o4711)")
    switched("a switched user, root's", "os.chmod(\"home/root's\", 0o4755)")
    switched("a switched user, root's by descriptor", "os.fchmod(os.open(\"home/root's\", os.O_RDWR), 0o4755)")
    switched("a switched user, root's by a link", "os.chmod('home/link', 0o4755)")
    switched("a switched user, his own out of reach", "os.chmod('closed/his', 0o4755)")
    switched("a switched user, his own out of a group", "os.chmod('of-a-group/his', 0o4755)")
    switched("a switched user, his own within a group", "os.chmod('of-a-group/his', 0o4755)", groups="--groups=5555")
    switched("a switched user, a directory", "os.mkdir('home/made'); os.chmod('home/made', 0o2775)")
    expect("his directory has the rest", "home/made", 0o775)
    switched("a switched user creates", "os.umask(0o027); os.close(os.open('home/new', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o6777))")
    expect("what he created has the rest", "home/new", 0o750)
    new = os.stat("home/new")
    results["what he created is his"] = "ok" if (new.st_uid, new.st_gid) == (1234, 1234) else str(new)
    switched("a switched user creates where he may not", "os.open('closed/new', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o4755)")
    results["nothing is made where he may not"] = "no" if os.path.exists("closed/new") else "ok"
    switched("another group, root's", "os.chmod(\"home/root's\", 0o4755)", uid=0)
    switched("another group creates", "os.close(os.open('home/of-the-group', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o2755))", uid=0)
    results["what the group created is its own"] = "ok" if os.stat("home/of-the-group").st_gid == 1234 else "no"
    attempt("root after all of them", "fchmodat", CWD, b"home/root's", 0o4744)
    expect("root is root again", "home/root's", 0o744)


def races():
    """Threads change modes behind names that lead elsewhere at any moment."""
    for name in ("one", "two"):
        make(name)
    os.symlink("one", "swapped")
    failures, done = [], threading.Event()
    def swap():
        targets = ("one", "two", "nothing", "/proc/self/fd/0", "/etc/passwd", "untouchable")
        while not done.is_set():
            for target in targets:
                os.symlink(target, "next")
                os.rename("next", "swapped")
    def change(fd):
        for _ in range(50):
            n = call(NR["fchmodat"], CWD, b"swapped", 0o4755)
            if n not in (0, -errno.ENOENT, -errno.ELOOP, -errno.EPERM, -errno.EACCES, -errno.EROFS):
                failures.append(n)
            if call(NR["fchmod"], fd, 0o4755) != 0:
                failures.append("fchmod")
    swapper = threading.Thread(target=swap)
    swapper.start()
    changers = [threading.Thread(target=change, args=(make("own%d" % i),)) for i in range(100)]
    for t in changers: t.start()
    for t in changers: t.join()
    done.set()
    swapper.join()
    results["a hundred threads"] = "ok" if not failures else str(failures[:3])


def killed_callers():
    for _ in range(50):
        pid = os.fork()
        if pid == 0:
            while True:
                call(NR["fchmodat"], CWD, b"changed", 0o4755)
        for _ in range(20):
            call(NR["fchmodat"], CWD, b"one", 0o4755)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    attempt("after callers were killed", "fchmodat", CWD, b"one", 0o4744)
    expect("it was done", "one", 0o744)


os.umask(0o022)
changes()
errors()
creations()
ways_around()
other_callers()
switched_users()
races()
killed_callers()
json.dump(results, sys.stdout)
