package main

import (
	"fmt"
	"strconv"
	"strings"
)

// number converts what a pattern matched as digits.
func number(digits string) int {
	n, _ := strconv.Atoi(digits) // 0 if it is too large, which no file here is
	return n
}

// delegateTask is two tasks to delegate, one of which asks a question.
func delegateTask() task {
	return task{
		name:   "delegate",
		prompt: "Have two agents work at the same time: one on prices.csv, from the notes, and one on a title for the catalogue. Collect both files.",
		files: map[string]string{
			"notes.txt": "tea 4.35\ncake 1.10\nAll prices are in Swiss francs.\n",
			"items.txt": "tea\ncake\n",
		},
		wants: map[string]string{"prices.csv": "tea,4.35,CHF", "title.txt": "Tea and cake"},
		parts: []part{
			{"Write prices.csv", playPrices},
			{"Write title.txt", playTitle},
			{"Have two agents", playDelegate},
		},
	}
}

// priceAnswer is the parent's answer to the question of a task.
const priceAnswer = "The currency is CHF."

func playDelegate(p *player) {
	p.must(p.bash("cat notes.txt items.txt"), "Swiss francs")
	prices := args{"prompt": "Write prices.csv from items.txt: name,price,currency. Tea is 4.35, cake is 1.10.", "files": []string{"items.txt"}}
	title := args{"prompt": "Write title.txt: one line that names the items of items.txt.", "files": []string{"items.txt"}}
	started := p.all(call{tool: "delegate_task", args: prices}, call{tool: "delegate_task", args: title})
	ids := tasksIn(started)
	if len(ids) != 2 {
		p.giveUp("I see no two tasks")
	}
	p.must(p.wait(ids[1]), "title.txt")
	p.must(p.wait(ids[0]), "currency")
	if tool, parameter := p.answering(); tool != "" {
		p.call(tool, args{"task_id": ids[0], parameter: priceAnswer})
	} else {
		prices["prompt"] = prices["prompt"].(string) + " " + priceAnswer
		if again := tasksIn(p.call("delegate_task", prices)); len(again) > 0 {
			ids[0] = again[0]
		}
	}
	p.must(p.wait(ids[0]), "in francs")
	p.all(
		call{tool: "collect_file", args: args{"task_id": ids[0], "path": "prices.csv"}},
		call{tool: "collect_file", args: args{"task_id": ids[1], "path": "title.txt"}})
	p.must(p.bash("cat prices.csv title.txt"), "CHF")
	p.finish("Both files are here.")
}

// wait waits for a task to end or to ask.
func (p *player) wait(id string) string {
	return p.call("task_status", args{"task_id": id, "wait": 60})
}

// answering returns the tool that answers a task's question, and the parameter for
// the answer; none if there is no such tool.
func (p *player) answering() (tool, parameter string) {
	s, ok := p.schemaOf("send_task")
	if !ok {
		return "", ""
	}
	for _, name := range s.Required {
		if name != "task_id" {
			return "send_task", name
		}
	}
	for name, property := range s.Properties {
		if name != "task_id" && property.Type == "string" {
			return "send_task", name
		}
	}
	return "", ""
}

// tasksIn returns the ids of the tasks that results say were started.
func tasksIn(results string) (ids []string) {
	for _, rest := range strings.Split(results, "started task ")[1:] {
		ids = append(ids, strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" \n.,;:)", r) })[0])
	}
	return ids
}

func playPrices(p *player) {
	p.must(p.say(p.reading("items.txt", 1, 0, 0)), "cake")
	if !strings.Contains(p.opening, priceAnswer) {
		p.must(p.call("continue", args{"prompt": "In which currency are the prices?", "options": []string{"EUR", "CHF"}}), "CHF")
	}
	p.call("write_file", args{"path": "prices.csv", "content": "tea,4.35,CHF\ncake,1.10,CHF\n"})
	p.finish("prices.csv is written, in francs.")
}

func playTitle(p *player) {
	p.must(p.say(p.reading("items.txt", 1, 0, 0)), "cake")
	p.call("write_file", args{"path": "title.txt", "content": "Tea and cake\n"})
	p.finish("title.txt is written.")
}

// localTask is a small job on this machine: several files to read, a script to
// write, and a command that takes 35 seconds.
func localTask(quick bool) task {
	pause := 4.4
	if quick {
		pause = 0.1
	}
	numbers := func(from, to int) string {
		var lines []string
		for n := from; n < to; n++ {
			lines = append(lines, strconv.Itoa(n))
		}
		return strings.Join(lines, "\n") + "\n"
	}
	return task{
		name:   "local",
		prompt: "Sum the numbers of a.txt, b.txt and c.txt as README.md says, with check.py, and write the sum to sum.txt.",
		local:  true,
		files: map[string]string{
			"README.md": "Run check.py first: it checks the files, and then the sum may be computed.\n",
			"a.txt":     numbers(0, 100), "b.txt": numbers(100, 200), "c.txt": numbers(200, 300),
			"check.py": fmt.Sprintf("import time\nfor n in range(8):\n    time.sleep(%g)\n    print('checked part', n + 1, 'of 8', flush=True)\nopen('checked', 'w').write('yes')\nprint('all files are checked')\n", pause),
		},
		wants: map[string]string{"sum.txt": "44850", "checked": "yes"},
		parts: []part{{"Sum the numbers", playLocal}},
	}
}

func playLocal(p *player) {
	readme := p.reading("README.md", 1, 0, 0)
	p.must(p.slip(call{tool: "read_file", args: readme.args}, readme, "check.py first"), "check.py first")
	p.all(p.reading("a.txt", 1, 0, 0), p.reading("b.txt", 1, 0, 0), p.reading("c.txt", 1, 0, 0), p.reading("check.py", 1, 0, 0))
	const checked = "all files are checked"
	result := p.bash("python3 check.py")
	if job := jobIn(result); !strings.Contains(result, checked) && job != "" {
		result = p.await(job, checked)
	}
	if !strings.Contains(result, checked) {
		result = p.call("bash", args{"cmd": "python3 check.py", "timeout": 60})
	}
	p.must(result, checked)
	script := "numbers = []\nfor name in ['a.txt', 'b.txt', 'c.txt']:\n    numbers += map(int, open(name))\nopen('sum.txt', 'w').write(str(sum(numbers)))\n"
	// JSON has no line feeds in strings, but models write them.
	raw := `{"path": "sum.py", "content": "` + script + `"}`
	p.slip(call{tool: "write_file", raw: raw}, call{tool: "write_file", args: args{"path": "sum.py", "content": script}}, "sum.py")
	p.must(p.bash("python3 sum.py && cat sum.txt"), "44850")
	p.finish("The files are checked, and the sum is 44850.")
}
