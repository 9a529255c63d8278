package main

import (
	"maps"
	"strings"

	"github.com/x/pygent"
)

// What follows are tasks as models of certain families play them, in a repository: one
// that writes patches, and one that was trained on chat.

const rounding = "def cents(amount):\n    return round(amount * 100)\n\n\ndef euros(cents):\n    return cents / 100\n"

// shopFiles are those of the repository.
func shopFiles() map[string]string {
	return map[string]string{
		"README.md":        "# Shop\n\nPrices are in euros. Run the tests with python3 -m unittest.\n",
		"shop/__init__.py": "",
		"shop/price.py":    rounding,
		"shop/cart.py":     "from shop.price import cents, euros\n\n\nclass Cart:\n    def __init__(self):\n        self.items = []\n\n    def add(self, name, price, count=1):\n        self.items.append((name, cents(price), count))\n\n    def total(self):\n        return euros(sum(price * count for _, price, count in self.items))\n",
		"shop/bill.py":     "from shop.price import euros\n\n\ndef line(name, price):\n    return f'{name}: {euros(price)} EUR'\n",
		"shop/old.py":      "# nobody imports this\nRATE = 1.95583\n",
		"test_shop.py":     "import unittest\nfrom shop.bill import line\nfrom shop.cart import Cart\n\n\nclass TestShop(unittest.TestCase):\n    def test_total(self):\n        cart = Cart()\n        cart.add('tea', 4.35, 2)\n        self.assertEqual(cart.total(), 8.70)\n\n    def test_line(self):\n        self.assertEqual(line('tea', 435), 'tea: 4.35 EUR')\n\n\nif __name__ == '__main__':\n    unittest.main()\n",
	}
}

// patchTask is one change of several files: a module gets another name, those that use it
// follow, one file goes and one comes.
func patchTask() task {
	return task{
		name:   "patch",
		prompt: "Rename shop/price.py to shop/money.py with all that uses it, remove shop/old.py, and add shop/version.py with VERSION = '2'.",
		files:  shopFiles(),
		commit: true,
		wants: map[string]string{
			"shop/money.py": rounding, "shop/version.py": "VERSION = '2'",
			"shop/cart.py": "from shop.money import cents", "shop/bill.py": "from shop.money import euros",
		},
		gone:  []string{"shop/price.py", "shop/old.py"},
		parts: []part{{"Rename shop/price.py", playPatch}},
	}
}

const shopTest = "python3 -m unittest 2>&1"

// playPatch writes the patch into a shell, as models do that were trained on the program.
// Where that does nothing, it does the same in single steps.
func playPatch(p *player) {
	p.must(p.bash("grep -rn 'price\\|old' --include=*.py . | grep import; cat shop/cart.py shop/bill.py"), "from shop.price import cents")
	patch := strings.Join([]string{
		"*** Begin Patch",
		"*** Update File: shop/price.py", "*** Move to: shop/money.py",
		"*** Update File: shop/cart.py", "@@", "-from shop.price import cents, euros", "+from shop.money import cents, euros",
		"*** Update File: shop/bill.py", "@@", "-from shop.price import euros", "+from shop.money import euros",
		"*** Delete File: shop/old.py",
		"*** Add File: shop/version.py", "+VERSION = '2'",
		"*** End Patch", "",
	}, "\n")
	p.bash("apply_patch <<'EOF'\n" + patch + "EOF\n" + shopTest)
	status := p.bash("git status --short")
	if !strings.Contains(status, "version.py") {
		p.bash("git mv shop/price.py shop/money.py && git rm -q shop/old.py")
		p.edit("shop/cart.py", change{"shop.price", "shop.money"})
		p.edit("shop/bill.py", change{"shop.price", "shop.money"})
		p.call("write_file", args{"path": "shop/version.py", "content": "VERSION = '2'\n"})
		status = p.bash("git status --short")
	}
	p.must(status, "shop/cart.py")
	p.must(p.bash(shopTest), "OK")
	p.finish("price is money now, old.py is gone, and version.py is there. The tests pass.")
}

// chatTask is a bug that a model fixes which was trained on chat: it announces a step
// without taking it, writes a call into its text, and ends with a text.
func chatTask() task {
	files := shopFiles()
	maps.Copy(files, map[string]string{"shop/price.py": strings.Replace(rounding, "cents / 100", "cents // 100", 1)})
	return task{
		name:   "chat",
		prompt: "Fix the failing tests of this repository.",
		files:  files,
		commit: true,
		run:    []pygent.RunOption{pygent.WithEndOnAnswer()}, // as pygent run does
		wants:  map[string]string{"shop/price.py": "return cents / 100"},
		ends:   pygent.StatusReplied,
		parts:  []part{{"Fix the failing tests", playChat}},
	}
}

func playChat(p *player) {
	p.must(p.write("I'll run the tests first to see what fails."), "tool")
	p.must(p.write("```json\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \""+shopTest+"\"}}\n```"), "bash")
	p.must(p.bash(shopTest), "AssertionError")
	p.must(p.bash("cat shop/price.py"), "cents // 100")
	p.edit("shop/price.py", change{"cents // 100", "cents / 100"})
	p.must(p.bash(shopTest), "OK")
	p.write("I fixed `euros`, which cut the cents off. All tests pass now. Would you like me to commit the change?")
}
