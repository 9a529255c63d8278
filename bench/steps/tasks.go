package main

import (
	"fmt"
	"regexp"
	"strings"
)

// tasks returns the tasks in the order in which they are played. In quick ones no
// command takes longer than some seconds.
func tasks(quick bool) []task {
	return []task{bugTask(), serveTask(), hugeTask(), longTask(), delegateTask(), localTask(quick), patchTask(), chatTask()}
}

// bugTask is a bug to find and fix in two places, and tests to run.
func bugTask() task {
	return task{
		name:   "bug",
		prompt: "The tests fail. Find out why, and fix the program.",
		files: map[string]string{
			"shop/__init__.py": "",
			"shop/price.py":    "def cents(amount):\n    return int(amount * 100)\n\n\ndef euros(cents):\n    return cents // 100\n",
			"shop/cart.py":     "from shop.price import cents, euros\n\n\nclass Cart:\n    def __init__(self):\n        self.items = []\n\n    def add(self, name, price, count=1):\n        self.items.append((name, cents(price), count))\n\n    def total(self):\n        return euros(sum(price * count for _, price, count in self.items))\n",
			"test_cart.py":     "import unittest\nfrom shop.cart import Cart\n\n\nclass TestCart(unittest.TestCase):\n    def test_total(self):\n        cart = Cart()\n        cart.add('tea', 4.35, 2)\n        cart.add('cake', 1.10)\n        self.assertEqual(cart.total(), 9.80)\n\n\nif __name__ == '__main__':\n    unittest.main()\n",
		},
		wants: map[string]string{"shop/price.py": "return round(amount * 100)"},
		parts: []part{{"The tests fail", playBug}},
	}
}

func playBug(p *player) {
	const test = "python3 -m unittest 2>&1"
	p.must(p.slip(call{tool: "bash", args: args{"command": test}}, call{tool: "bash", args: args{"cmd": test}}, "FAILED"), "AssertionError")
	files := p.all(p.reading("test_cart.py", 1, 0, 0), p.reading("shop/cart.py", 1, 0, 0))
	p.must(files, "from shop.price import")
	p.must(p.say(p.reading("shop/price.py", 1, 0, 0)), "int(amount * 100)")
	p.edit("shop/price.py",
		change{"    return int(amount * 100)", "    return round(amount * 100)"},
		change{"    return cents // 100", "    return cents / 100"})
	p.must(p.bash(test), "OK")
	p.finish("Prices were cut to whole cents and euros; they are rounded now. The tests pass.")
}

// serveTask is a server to start, to wait for, to query and to stop. It does not
// flush what it prints.
func serveTask() task {
	return task{
		name:   "serve",
		prompt: "Start server.py and find out what /answer returns. Write that to answer.txt.",
		files: map[string]string{"server.py": `import http.server
import time

for n in range(1, 5):
    time.sleep(0.4)
    print(f"loading part {n} of 4")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the answer is 42")


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"listening on port {server.server_port}")
server.serve_forever()
`},
		wants: map[string]string{"answer.txt": "the answer is 42"},
		parts: []part{{"Start server.py", playServe}},
	}
}

var portNamed = regexp.MustCompile(`listening on port (\d+)`)

func playServe(p *player) {
	p.must(p.say(p.reading("server.py", 1, 0, 0)), "serve_forever")
	job, output := serve(p, "python3 server.py")
	if !portNamed.MatchString(output) {
		// A program that prints to a pipe may keep it to itself.
		p.call("job_kill", args{"id": job})
		job, output = serve(p, "python3 -u server.py")
	}
	m := portNamed.FindStringSubmatch(output)
	if m == nil {
		p.giveUp("the server does not say where it listens")
	}
	query := fmt.Sprintf(`python3 -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:%s/answer").read().decode())' | tee answer.txt`, m[1])
	right := call{tool: "bash", args: args{"cmd": query, "timeout": 20}}
	p.must(p.slip(call{tool: "bash", args: args{"cmd": query, "timeout": "20"}}, right, "the answer is"), "42")
	p.call("job_kill", args{"id": job})
	p.finish("The answer is 42; it is in answer.txt.")
}

// serve starts a server and waits until it listens.
func serve(p *player, cmd string) (job, output string) {
	job = jobIn(p.call("bash", args{"cmd": cmd, "background": true}))
	if job == "" {
		p.giveUp("I see no job")
	}
	return job, p.await(job, "listening on port")
}

// hugeTask is a build that prints 2 MB, most of it the states of progress bars, with
// one error in the middle.
func hugeTask() task {
	return task{
		name:   "huge",
		prompt: "The build (python3 build.py) fails. Fix it.",
		files: map[string]string{
			"src/module_17.c": strings.Repeat("int before;\n", 41) + "size count_17;\n" + strings.Repeat("int after;\n", 10),
			"build.py": `import sys

good = "size_t count_17" in open("src/module_17.c").read()
for module in range(1, 41):
    for percent in range(0, 1000):
        bar = "#" * (percent // 40)
        print(f"\r[{bar:<25}] {percent / 10:5.1f}% module_{module}", end="")
    print(f"\ncompiled src/module_{module}.c")
    if module == 17 and not good:
        print("src/module_17.c:42: error: unknown type name 'size'")
if not good:
    sys.exit("the build failed: 1 error")
print("the build is complete")
`},
		wants: map[string]string{"src/module_17.c": "size_t count_17"},
		parts: []part{{"The build", playHuge}},
	}
}

// wholeNamed matches how a result names the file with the whole output.
var wholeNamed = regexp.MustCompile(`(?i)whole (?:output )?[^\n/]{0,40}?(/[^\s\]"';,]+)`)

const buildError = "src/module_17.c:42: error"

func playHuge(p *player) {
	const build = "python3 build.py 2>&1"
	result := p.bash(build)
	if m := wholeNamed.FindStringSubmatch(result); !strings.Contains(result, buildError) && m != nil {
		result = p.bash("grep -n -m 5 'error' " + m[1])
	}
	if !strings.Contains(result, buildError) {
		result = p.bash(build + ` | tr '\r' '\n' | grep -m 5 error`)
	}
	p.must(result, buildError)
	p.must(p.bash("sed -n 38,46p src/module_17.c"), "size count_17")
	p.edit("src/module_17.c", change{"size count_17;", "size_t count_17;"})
	if !strings.Contains(p.bash(build), "the build is complete") {
		p.giveUp("the build still fails")
	}
	p.finish("module_17.c used a type that does not exist. The build is complete.")
}

// longTask is several edits far down in a file of 2,000 lines, one of which is
// copied with spaces for tabs.
func longTask() task {
	var b strings.Builder
	for n := range 499 {
		fmt.Fprintf(&b, "def fee_%d(amount):\n\trate = %d / 100\n\treturn amount * rate\n\n", n, n%7+1)
	}
	b.WriteString("print(fee_375(1000), fee_376(1000))\n\n\n# the end\n")
	return task{
		name:   "long",
		prompt: "In fees.py, fee_375 shall have a rate of 9 percent, fee_376 one of 11, and both shall round to cents.",
		files:  map[string]string{"fees.py": b.String()},
		wants: map[string]string{
			"fees.py": "def fee_375(amount):\n\trate = 9 / 100\n\treturn round(amount * rate, 2)\n\n" +
				"def fee_376(amount):\n\trate = 11 / 100\n\treturn round(amount * rate, 2)\n",
		},
		parts: []part{{"In fees.py", playLong}},
	}
}

var grepped = regexp.MustCompile(`(?m)^(\d+):(\d+):def fee_375`)

func playLong(p *player) {
	m := grepped.FindStringSubmatch(p.bash("grep -nb 'def fee_37[56]' fees.py"))
	if m == nil {
		p.giveUp("grep shows nothing")
	}
	p.must(p.say(p.reading("fees.py", number(m[1]), 10, number(m[2]))), "def fee_376")
	first := "def fee_375(amount):\n\trate = 5 / 100\n\treturn amount * rate\n"
	second := "def fee_376(amount):\n\trate = 6 / 100\n\treturn amount * rate\n"
	one := change{first, "def fee_375(amount):\n\trate = 9 / 100\n\treturn round(amount * rate, 2)\n"}
	two := change{second, "def fee_376(amount):\n\trate = 11 / 100\n\treturn round(amount * rate, 2)\n"}
	note := change{"# the end\n", "# the fees of 375 and 376 are rounded\n"}
	wrong := change{strings.ReplaceAll(second, "\t", "    "), two.after}
	result := p.edit("fees.py", one, wrong, note)
	fixes := []change{two}
	if p.severalAreOne() {
		fixes = []change{one, two, note} // all or none
	}
	if !strings.Contains(result, "\trate = 6 / 100") {
		p.must(p.bash("grep -n -A 3 'def fee_376' fees.py | cat -A"), "^Irate = 6 / 100")
	}
	p.edit("fees.py", fixes...)
	p.must(p.bash("python3 fees.py"), "90.0 110.0")
	p.finish("Both fees have their new rates and are rounded to cents.")
}

// severalAreOne reports whether edit_file takes several edits at once.
func (p *player) severalAreOne() bool { return p.takes("edit_file", "edits") }
