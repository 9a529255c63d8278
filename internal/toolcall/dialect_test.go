package toolcall_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolcall"
	"github.com/x/pygent/internal/toolschema"
)

// schemas are those of our tools, as far as arguments are translated.
var schemas = map[string]string{
	"bash":          `{"type":"object","properties":{"cmd":{"type":"string"},"timeout":{"type":"number"},"cwd":{"type":"string"},"background":{"type":"boolean"}},"required":["cmd"],"additionalProperties":false}`,
	"download_file": `{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"},"count":{"type":"integer"},"offset":{"type":"integer"}},"required":["path"],"additionalProperties":false}`,
	"write_file":    `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"append":{"type":"boolean"}},"required":["path","content"],"additionalProperties":false}`,
	"edit_file":     `{"type":"object","properties":{"path":{"type":"string"},"old_text":{"type":"string"},"new_text":{"type":"string"},"replace_all":{"type":"boolean"},"edits":{"type":"array","items":{"type":"object","properties":{"old_text":{"type":"string"},"new_text":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["old_text","new_text"],"additionalProperties":false}}},"required":["path"],"additionalProperties":false}`,
	"continue":      `{"type":"object","properties":{"prompt":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`,
	"stop":          `{"type":"object","properties":{"summary":{"type":"string"}},"additionalProperties":false}`,
	"job_output":    `{"type":"object","properties":{"id":{"type":"string"},"wait":{"type":"number"}},"required":["id"],"additionalProperties":false}`,
	"job_kill":      `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`,
	"delegate_task": `{"type":"object","properties":{"prompt":{"type":"string"},"files":{"type":"array","items":{"type":"string"}},"timeout":{"type":"number"}},"required":["prompt"],"additionalProperties":false}`,
	"task_status":   `{"type":"object","properties":{"task_id":{"type":"string"}},"additionalProperties":false}`,
}

func read(t testing.TB, tool, name, args string) (string, error) {
	s, err := toolschema.Parse(json.RawMessage(schemas[tool]))
	require.NoError(t, err)
	as := s.Read
	if toolcall.Fold(toolcall.Bare(name)) != toolcall.Fold(tool) {
		as = s.ReadAs
	}
	got, err := as(args, toolcall.Translator(tool, name))
	return string(got), err
}

func TestCallsOfOtherAgentsToolsAreUnderstood(t *testing.T) {
	for _, c := range []struct{ name, given, tool, want string }{
		{"bash", `{"command":"ls"}`, "bash", `{"cmd":"ls"}`},
		{"bash", `{"script":"ls","working_directory":"a","timeout_ms":"2500"}`, "bash", `{"cmd":"ls","cwd":"a","timeout":2.5}`},
		{"bash", `{"cmd":"ls","timeout":9000}`, "bash", `{"cmd":"ls","timeout":9000}`},
		{"bash", `{"command":"ls","description":"List files","run_in_background":true}`, "bash", `{"background":true,"cmd":"ls"}`},
		{"shell", `{"command":["bash","-lc","ls -la | wc"],"workdir":"src","timeout":120000}`, "bash", `{"cmd":"ls -la | wc","cwd":"src","timeout":120}`},
		{"container.exec", `{"cmd":["grep","-n","it's $x","a.txt"]}`, "bash", `{"cmd":"grep -n 'it'\\''s $x' a.txt"}`},
		{"local_shell", `{"command":["ls"],"with_escalated_permissions":true,"justification":"why"}`, "bash", `{"cmd":"ls"}`},
		{"execute_command", `{"command":"ls","requires_approval":"false"}`, "bash", `{"cmd":"ls"}`},
		{"run_terminal_cmd", `{"command":"ls","is_background":false,"explanation":"x"}`, "bash", `{"background":false,"cmd":"ls"}`},
		{"Grep", `{"pattern":"a.*b|c","path":"src","-i":true,"output_mode":"content","-n":true,"glob":"*.go"}`, "bash", `{"cmd":"find src -name .git -prune -o -type f -name '*.go' -exec grep -nHEi -e 'a.*b|c' {} +"}`},
		{"grep_search", `{"query":"-x","case_sensitive":true,"explanation":"e"}`, "bash", `{"cmd":"find . -name .git -prune -o -type f -exec grep -nHE -e -x {} +"}`},
		{"grep", `{"pattern":"it's x"}`, "bash", `{"cmd":"find . -name .git -prune -o -type f -exec grep -nHE -e 'it'\\''s x' {} +"}`},
		{"grep", `{"pattern":"x","case_sensitive":false,"path":"-d"}`, "bash", `{"cmd":"find ./-d -name .git -prune -o -type f -exec grep -nHEi -e x {} +"}`},
		{"Glob", `{"pattern":"**/*_test.go"}`, "bash", `{"cmd":"find . -name '*_test.go' ! -path '*/.git/*'"}`},
		{"Glob", `{"pattern":"src/**/*.{ts,tsx}"}`, "bash", `{"cmd":"find src \\( -name '*.ts' -o -name '*.tsx' \\) ! -path '*/.git/*'"}`},
		{"Glob", `{"pattern":"./src/*.go","path":"x y"}`, "bash", `{"cmd":"find 'x y/src' -maxdepth 1 -name '*.go' ! -path '*/.git/*'"}`},
		{"Glob", `{"pattern":"src/**"}`, "bash", `{"cmd":"find src -name '**' ! -path '*/.git/*'"}`},
		{"Glob", `{"pattern":"/repo/**/a.go"}`, "bash", `{"cmd":"find /repo -name a.go ! -path '*/.git/*'"}`},
		{"Grep", `{"pattern":"x","output_mode":"files_with_matches","head_limit":20}`, "bash", `{"cmd":"find . -name .git -prune -o -type f -exec grep -lE -e x {} +"}`},
		{"Grep", `{"pattern":"x","output_mode":"content","-C":2,"-B":"1","glob":"*.{a,b}"}`, "bash", `{"cmd":"find . -name .git -prune -o -type f \\( -name '*.a' -o -name '*.b' \\) -exec grep -B 1 -C 2 -nHE -e x {} +"}`},
		{"Grep", `{"pattern":"x","output_mode":"count","-i":true}`, "bash", `{"cmd":"find . -name .git -prune -o -type f -exec grep -cHEi -e x {} +"}`},
		{"Bash", `{"command":"ls","timeout":120000}`, "bash", `{"cmd":"ls","timeout":120}`},
		{"bash", `{"command":"ls","timeout":120000}`, "bash", `{"cmd":"ls","timeout":120}`},
		{"exec_command", `{"cmd":"ls","yield_time_ms":1000,"max_output_tokens":100}`, "bash", `{"cmd":"ls"}`},
		{"list_files", `{"path":"src","recursive":false}`, "download_file", `{"path":"src"}`},
		{"list_files", `{"path":"src","recursive":true}`, "bash", `{"cmd":"find src ! -path '*/.git/*'"}`},
		{"ls", `{"recursive":"true"}`, "bash", `{"cmd":"find . ! -path '*/.git/*'"}`},
		{"directory_tree", `{"path":"-d"}`, "bash", `{"cmd":"find ./-d ! -path '*/.git/*'"}`},
		{"delete_file", `{"target_file":"it's","explanation":"e"}`, "bash", `{"cmd":"rm 'it'\\''s'"}`},
		{"rm", `{"path":"-d","recursive":true}`, "bash", `{"cmd":"rm -r ./-d"}`},
		{"rm", `{"command":"rm x"}`, "bash", `{"cmd":"rm x"}`},
		{"move_file", `{"source":"a","destination":"b/c"}`, "bash", `{"cmd":"mv a b/c"}`},
		{"rename_file", `{"old_path":"a","new_path":"b"}`, "bash", `{"cmd":"mv a b"}`},
		{"copy_file", `{"path":"a","dest":"b"}`, "bash", `{"cmd":"cp -r a b"}`},
		{"create_directory", `{"path":"a/b"}`, "bash", `{"cmd":"mkdir -p a/b"}`},
		{"download_file", `{"path":"a","lines":"2-4"}`, "download_file", `{"count":3,"line":2,"path":"a"}`},
		{"create_file", `{"path":"a","content":"x","overwrite":true,"encoding":"utf-8"}`, "write_file", `{"content":"x","path":"a"}`},
		{"finish", `{"message":"Done.","task_completed":"true"}`, "stop", `{"summary":"Done."}`},
		{"stop", `{"summary":"Done.","status":"Success"}`, "stop", `{"summary":"Done."}`},
		{"glob", `{"pattern":"*.c","path":"-odd dir"}`, "bash", `{"cmd":"find './-odd dir' -name '*.c' ! -path '*/.git/*'"}`},
		{"Read", `{"file_path":"a","offset":20,"limit":"5"}`, "download_file", `{"count":5,"line":20,"path":"a"}`},
		{"read_file", `{"target_file":"a","start_line_one_indexed":3,"end_line_one_indexed_inclusive":7,"should_read_entire_file":false}`, "download_file", `{"count":5,"line":3,"path":"a"}`},
		{"view", `{"file_path":"a","offset":0}`, "download_file", `{"line":1,"path":"a"}`},
		{"cat", `{"filename":"a"}`, "download_file", `{"path":"a"}`},
		{"download_file", `{"path":"a","offset":20}`, "download_file", `{"path":"a","offset":20}`},
		{"download_file", `{"file":"a","view_range":[10,-1]}`, "download_file", `{"line":10,"path":"a"}`},
		{"download_file", `{"path":"a","line":5,"end_line":9}`, "download_file", `{"count":5,"line":5,"path":"a"}`},
		{"ls", `{}`, "download_file", `{"path":"."}`},
		{"list_dir", `{"relative_workspace_path":"src","explanation":"e"}`, "download_file", `{"path":"src"}`},
		{"Edit", `{"file_path":"a","old_string":"x","new_string":"y","replace_all":"true"}`, "edit_file", `{"new_text":"y","old_text":"x","path":"a","replace_all":true}`},
		{"MultiEdit", `{"file_path":"a","edits":[{"old_string":"x","new_string":"y"},{"old_str":"z","new_text":""}]}`, "edit_file", `{"edits":[{"new_text":"y","old_text":"x"},{"new_text":"","old_text":"z"}],"path":"a"}`},
		{"search_replace", `{"path":"a","search":"x","replace":"y"}`, "edit_file", `{"new_text":"y","old_text":"x","path":"a"}`},
		{"replace", `{"file_path":"a","old_string":"x","new_string":"y","expected_replacements":1}`, "edit_file", `{"new_text":"y","old_text":"x","path":"a"}`},
		{"str_replace_based_edit_tool", `{"command":"view","path":"a","view_range":[2,4]}`, "download_file", `{"count":3,"line":2,"path":"a"}`},
		{"str_replace_editor", `{"command":"create","path":"a","file_text":"x"}`, "write_file", `{"content":"x","path":"a"}`},
		{"str_replace_editor", `{"command":"str_replace","path":"a","old_str":"x"}`, "edit_file", `{"new_text":"","old_text":"x","path":"a"}`},
		{"str_replace_editor", "{'command':'view','path':'a',}", "download_file", `{"path":"a"}`},
		{"Write", `{"file_path":"a","content":"x"}`, "write_file", `{"content":"x","path":"a"}`},
		{"write_to_file", `{"path":"a","content":"x","line_count":1}`, "write_file", `{"content":"x","path":"a"}`},
		{"ask_followup_question", `{"question":"Which?","follow_up":["a","b"]}`, "continue", `{"options":["a","b"],"prompt":"Which?"}`},
		{"ask_user", `{"question":"Which?","choices":["a","b"]}`, "continue", `{"options":["a","b"],"prompt":"Which?"}`},
		{"attempt_completion", `{"result":"Done."}`, "stop", `{"summary":"Done."}`},
		{"finish", `{"message":"Done.","reason":"all went well"}`, "stop", `{"summary":"Done."}`},
		{"done", ``, "stop", `{}`},
		{"Write", `{"file_path":"a","content":"x","replace_all":false}`, "write_file", `{"content":"x","path":"a"}`},
		{"execute", `{"code":"git status"}`, "bash", `{"cmd":"git status"}`},
		{"execute", `{"code":"#!/bin/bash\nx=1"}`, "bash", `{"cmd":"#!/bin/bash\nx=1"}`},
		{"execute", `{"code":"./run.sh"}`, "bash", `{"cmd":"./run.sh"}`},
		{"execute", `{"language":"bash","code":"x=1"}`, "bash", `{"cmd":"x=1"}`},
		{"shell", `{"code":"x=1"}`, "bash", `{"cmd":"x=1"}`},
		{"execute", `{"command":"x=1"}`, "bash", `{"cmd":"x=1"}`},
		{"BashOutput", `{"bash_id":"j1"}`, "job_output", `{"id":"j1"}`},
		{"KillShell", `{"shell_id":7}`, "job_kill", `{"id":"7"}`},
		{"Task", `{"description":"Search","prompt":"Look for it.","subagent_type":"general-purpose"}`, "delegate_task", `{"prompt":"Look for it."}`},
		{"delegate_task", `{"task":"Look for it."}`, "delegate_task", `{"prompt":"Look for it."}`},
		{"task_status", `{"id":"t1"}`, "task_status", `{"task_id":"t1"}`},
	} {
		t.Run(c.name+" "+c.given, func(t *testing.T) {
			if toolcall.Fold(c.name) != toolcall.Fold(c.tool) {
				require.Equal(t, c.tool, toolcall.Tool(c.name, c.given))
			}
			got, err := read(t, c.tool, c.name, c.given)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestWhatHasNoCounterpartIsRefusedWithAdvice(t *testing.T) {
	for _, c := range []struct{ name, given, tool, want string }{
		{"str_replace_editor", `{"command":"insert","path":"a","insert_line":3,"new_str":"x"}`, "edit_file", "edit_file does not insert at a line"},
		{"str_replace_editor", `{"command":"undo_edit","path":"a"}`, "edit_file", "cannot undo"},
		{"str_replace_editor", `{"command":"fly","path":"a"}`, "edit_file", `there is no command "fly"`},
		{"replace_in_file", `{"path":"a","diff":"<<<<<<< SEARCH"}`, "edit_file", "there are no diffs here"},
		{"Grep", `{"pattern":"x","output_mode":"other"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"\\d+"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"x","glob":"*.{a,b}{c,d}"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"x","glob":"src/*.go"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"x","-A":"3;ls"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"x","type":"py"}`, "bash", "use bash with grep or find"},
		{"Grep", `{"pattern":"x\n; rm -rf /"}`, "bash", "use bash with grep or find"},
		{"Glob", `{"pattern":"src/*/a/**/*.go"}`, "bash", "use bash with grep or find"},
		{"Glob", `{"pattern":"/src/*.go","path":"x"}`, "bash", "use bash with grep or find"},
		{"Glob", `{"pattern":"` + strings.Repeat("x", 1000) + `{` + strings.Repeat(",", 1000) + `}"}`, "bash", "use bash with grep or find"},
		{"Glob", `{"pattern":"src/"}`, "bash", "use bash with grep or find"},
		{"list_files", `{"path":".","recursive":true,"pattern":"x"}`, "bash", "use bash with find . -not -path '*/.git/*'"},
		{"move_file", `{"source":"a"}`, "bash", "use mv in bash"},
		{"rm", `{"path":"a","force":true}`, "bash", "use rm in bash"},
		{"delete_file", `{}`, "bash", "use rm in bash"},
		{"create_file", `{"path":"a","content":"x","overwrite":false}`, "write_file", "there is no parameter overwrite"},
		{"stop", `{"summary":"x","success":false}`, "stop", "there is no parameter success"},
		{"bash", `{"command":"ls","script":"pwd"}`, "bash", "cmd is missing; you gave command, script"},
		{"bash", `{"cmd":"ls","command":"pwd"}`, "bash", "there is no parameter command"},
		{"bash", `{"foo":"ls"}`, "bash", "cmd is missing; you gave foo"},
		{"shell", `{"command":["cd x","make"]}`, "bash", `cmd: expected string, given array ["cd x","make"]`},
		{"bash", `{"commands":["cd x","make"]}`, "bash", `cmd: expected string, given array`},
		{"write_file", `{"directory":"d","filename":"a","content":"x"}`, "write_file", "path is missing; you gave directory, filename"},
		{"execute", `{"code":"import os\nprint(1)"}`, "bash", "If it is Python, give cmd: python3 <<'EOF'"},
		{"execute", `{"code":"ls = [1]"}`, "bash", "If it is Python"},
		{"execute", `{"code":"#!/usr/bin/env python3\n1"}`, "bash", "If it is Python"},
		{"execute", `{"language":"python","code":"print(1)"}`, "bash", "If it is python, give cmd: python3 <<'EOF'"},
		{"bash", `{"language":"JavaScript","code":"1"}`, "bash", "If it is javascript, give cmd: node <<'EOF'"},
		{"run", `{"lang":"","code":"1"}`, "bash", "If it is another language, give cmd: the interpreter"},
		{"read_file", `{"path":"a","limit":5,"count":2}`, "download_file", "there is no parameter limit"},
	} {
		t.Run(c.name+" "+c.given, func(t *testing.T) {
			_, err := read(t, c.tool, c.name, c.given)
			require.ErrorContains(t, err, c.want)
		})
	}
	require.Contains(t, toolcall.Hint("functions.apply_patch"), "use edit_file")
	require.Contains(t, toolcall.Hint("functions.python"), "python3 - <<'EOF'")
	require.Contains(t, toolcall.Hint("TodoRead"), "go on with the work")
	require.True(t, toolcall.IsNote("TodoWrite"))
	require.True(t, toolcall.IsNote("functions.update_plan"))
	require.False(t, toolcall.IsNote("bash"))
	require.Empty(t, toolcall.Hint("bash"))
}

func TestNamesAreFreedOfWhatIsAroundThem(t *testing.T) {
	for name, want := range map[string]string{
		"bash":                      "bash",
		"functions.bash":            "bash",
		"functions.bash:0":          "bash",
		"default_api:bash":          "bash",
		"tools/bash":                "bash",
		"bash<|channel|>commentary": "bash",
		"bash <|constrain|>json":    "bash",
		"to=functions.bash":         "bash",
		" bash\n":                   "bash",
		"`bash`":                    "bash",
		`bash({"cmd":"ls"})`:        "bash",
		"mcp__server__tool-a":       "mcp__server__tool-a",
		"":                          "",
		"<|channel|>":               "",
		"...":                       "",
	} {
		require.Equal(t, want, toolcall.Bare(name), name)
	}
	require.Equal(t, "bash", toolcall.Tool("container.exec", ""))
	require.Equal(t, "strreplaceeditor", toolcall.Fold("str_replace-Editor"))
	require.True(t, toolcall.Ends("final_answer"))
	require.False(t, toolcall.Ends("bash"))
	require.Empty(t, toolcall.Tool("web_search", ""))
	require.Empty(t, toolcall.Tool(strings.Repeat("x", 1000), ""))
}

func TestWordsForTheShellStandForThemselves(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell here")
	}
	for _, word := range []string{"", "a b", "it's", "$(id)", "`id`", `\'"`, "a\nb", "*", "~", "-n", "#", "!x", "ä"} {
		given, err := json.Marshal(map[string]any{"command": []string{"printf", "%s", word}})
		require.NoError(t, err)
		got, err := read(t, "bash", "shell", string(given))
		require.NoError(t, err)
		var in struct{ Cmd string }
		require.NoError(t, json.Unmarshal([]byte(got), &in))
		out, err := exec.Command(sh, "-c", in.Cmd).Output()
		require.NoError(t, err, in.Cmd)
		require.Equal(t, word, string(out))
	}
}

func TestTheValueOfARunIsTakenOutOfOtherWords(t *testing.T) {
	for _, c := range []struct{ schema, given, want string }{
		{`{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"],"additionalProperties":false}`, `{"answer":"7"}`, `{"value":7}`},
		{`{"type":"object","properties":{"verdict":{"type":"string"}},"required":["verdict"],"additionalProperties":false}`, `{"result":{"verdict":"good"}}`, `{"verdict":"good"}`},
		{`{"type":"object","properties":{"verdict":{"type":"string"}},"required":["verdict"],"additionalProperties":false}`, `{"result":"{\"verdict\":\"good\"}"}`, `{"verdict":"good"}`},
		{`{"type":"object","properties":{"result":{"type":"string"}},"required":["result"],"additionalProperties":false}`, `{"result":5}`, `{"result":"5"}`},
	} {
		s, err := toolschema.Parse(json.RawMessage(c.schema))
		require.NoError(t, err)
		got, err := s.Read(c.given, toolcall.Value)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
	}
}

func FuzzCalls(f *testing.F) {
	f.Add("Grep", `{"pattern":"a'b","path":"c d","-i":1}`)
	f.Add("shell", `{"command":["a","b'"],"timeout":99999}`)
	f.Add("str_replace_editor", `{"command":"view","path":"a","view_range":[1,2]}`)
	f.Add("functions.MultiEdit<|x|>", `{"file_path":"a","edits":[{"old_string":"x"}]}`)
	parsed := map[string]*toolschema.Schema{}
	for tool, schema := range schemas {
		s, err := toolschema.Parse(json.RawMessage(schema))
		require.NoError(f, err)
		parsed[tool] = s
	}
	f.Fuzz(func(t *testing.T, name, given string) {
		tool := toolcall.Tool(name, given)
		s := parsed[tool]
		if s == nil {
			return
		}
		first, err := s.ReadAs(given, toolcall.Translator(tool, name))
		for range 5 { // the order of a map's keys changes
			again, errAgain := s.ReadAs(given, toolcall.Translator(tool, name))
			require.Equal(t, fmt.Sprint(err), fmt.Sprint(errAgain))
			require.Equal(t, string(first), string(again))
		}
		if err == nil {
			_, err = s.Arguments(string(first))
			require.NoError(t, err)
		}
	})
}
