package pygent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const severalFiles = `*** Begin Patch
*** Update File: a.go
@@ func B() int {
-	return 1
+	return 2
*** Add File: d/new.txt
+new
*** Delete File: old.txt
*** End Patch
`

const twoFunctions = "package a\n\nfunc A() int {\n\treturn 1\n}\n\nfunc B() int {\n\treturn 1\n}\n"

// workspaceWith makes a workspace with files.
func workspaceWith(t *testing.T, files map[string]string) (dir string, rt pygent.Runtime) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	return dir, rt
}

// filesIn are the files of a workspace.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	}))
	return files
}

// patchCalls are the ways in which models write the same patch.
func patchCalls(t *testing.T) map[string]pygenttest.Reply {
	return map[string]pygenttest.Reply{
		"a tool":          rawCall("apply_patch", jsonOf(t, map[string]any{"input": severalFiles})),
		"without JSON":    rawCall("functions.apply_patch", severalFiles),
		"a here-document": rawCall("bash", jsonOf(t, map[string]any{"cmd": "apply_patch <<'EOF'\n" + severalFiles + "EOF\n"})),
		"codex's shell":   rawCall("shell", jsonOf(t, map[string]any{"command": []string{"bash", "-lc", "cd . && apply_patch <<'EOF'\n" + severalFiles + "EOF"}})),
		"its arguments":   rawCall("container.exec", jsonOf(t, map[string]any{"cmd": []string{"apply_patch", severalFiles}})),
	}
}

func TestAPatchChangesSeveralFilesInOneCall(t *testing.T) {
	t.Parallel()
	for name, call := range patchCalls(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, map[string]string{"a.go": twoFunctions, "old.txt": "old\n"})
			var ids, asked []string
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = append(asked, r.Call.Name+" "+r.Session)
				if r.Call.Name != "bash" && r.Call.Name != "stop" {
					require.Len(t, r.Changes, 1)
					require.NotEmpty(t, r.Changes[0].Diff())
				}
				return pygent.Decision{Allow: true}, nil
			}), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventToolCall || e.Type == pygent.EventToolDone {
					ids = append(ids, string(e.Type)+" "+e.Call.ID)
				}
			}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"a.go": strings.Replace(twoFunctions, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1), "d/new.txt": "new\n"}, filesIn(t, dir))
			require.Equal(t, []string{"edit_file writes to this file", "write_file writes to this file", "bash this very command"}, asked)
			require.Equal(t, []string{"tool_call c1.1", "tool_call c1.2", "tool_call c1", "tool_done c1.1", "tool_done c1.2", "tool_done c1"}, ids[:6])
			said := agent.History().Messages()[3].Text()
			require.True(t, strings.HasPrefix(said, "[edit a.go]\nedited a.go at line 7\n"), said)
			require.Contains(t, said, "\n[write d/new.txt]\ncreated d/new.txt with 4 bytes")
			require.Contains(t, said, "\n[$ rm -- old.txt]\n")
			var changed []string
			for _, c := range agent.Changes() {
				changed = append(changed, c.Path)
			}
			require.Equal(t, []string{"a.go", "d/new.txt"}, changed)
		})
	}
}

func TestNothingOfAPatchIsDoneUnlessAllCanBe(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.go": twoFunctions, "old.txt": "old\n", "locked": "x\n"}
	missing := strings.Replace(severalFiles, "*** Delete File: old.txt", "*** Update File: old.txt\n@@\n-other\n+new", 1)
	outside := strings.Replace(severalFiles, "d/new.txt", "../new.txt", 1)
	locked := strings.Replace(severalFiles, "*** Delete File: old.txt", "*** Update File: locked\n@@\n-x\n+y", 1)
	for name, c := range map[string]struct {
		patch  string
		denies string
		says   string
		opts   []pygent.Option
	}{
		"a part that is not found": {missing, "", "old_text does not occur in the file", nil},
		"a part that is denied":    {severalFiles, "bash", "denied: not this one", nil},
		"a part without a tool":    {severalFiles, "", "the tool is disabled", []pygent.Option{pygent.WithDisabledTools("bash")}},
		"a new file outside":       {outside, "", "outside the workspace", nil},
		"a file that is read-only": {locked, "", "locked is read-only", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, files)
			require.NoError(t, os.Chmod(filepath.Join(dir, "locked"), 0o444))
			opts := append(c.opts, pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				return pygent.Decision{Allow: r.Call.Name != c.denies, Reason: "not this one"}, nil
			}))
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": c.patch})), stop), opts...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, files, filesIn(t, dir))
			said := agent.History().Messages()[3].Text()
			require.Contains(t, said, c.says)
			if c.denies != "" {
				require.Contains(t, said, "another part of the same call cannot be done")
			}
		})
	}
}

func TestAPatchObeysTheRulesOfEachFile(t *testing.T) {
	t.Parallel()
	in := func(name string) pygenttest.Reply {
		return rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"}))
	}
	dir, rt := workspaceWith(t, map[string]string{".git/config": "", "latin": "caf\xe9 ol\xe9 d\xe9j\xe0 vu\r\nend\r\n", "locked": "x\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "locked"), 0o444))
	edits := rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: latin\n@@\n café olé déjà vu\n-end\n+fin é\n*** End Patch"}))
	locked := rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: locked\n@@\n-x\n+y\n*** End Patch"}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(in(".git/config"), in("../outside"), in(`"`+dir+`/quoted.txt"`), edits, locked, stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	said := agent.History().Messages()
	require.Contains(t, said[3].Text(), "git on the user's machine obeys what is below .git")
	require.Contains(t, said[5].Text(), "outside")
	require.Contains(t, said[11].Text(), "locked is read-only")
	require.Equal(t, map[string]string{".git/config": "", "latin": "caf\xe9 ol\xe9 d\xe9j\xe0 vu\r\nfin \xe9\r\n", "locked": "x\n", "quoted.txt": "x\n"}, filesIn(t, dir))
	_, err = os.Stat(filepath.Join(filepath.Dir(dir), "outside"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCallsInsideACallRun(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "one\n", "b": "two\n"})
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(
		rawCall("multi_tool_use.parallel", jsonOf(t, map[string]any{"tool_uses": []any{
			map[string]any{"recipient_name": "functions.download_file", "parameters": map[string]any{"path": "a"}},
			map[string]any{"recipient_name": "functions.apply_patch", "parameters": map[string]any{"input": "*** Begin Patch\n*** Add File: c\n+x\n*** Add File: d\n+x\n*** End Patch"}},
			map[string]any{"recipient_name": "functions.bash", "parameters": map[string]any{"cmd": "exit 3"}},
		}})),
		rawCall("read_many_files", `{"paths":["a","b"]}`),
		rawCall("edit_file", `{"path":"e","old_text":"","new_text":"five\n"}`),
		rawCall("bash", jsonOf(t, map[string]any{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: b\n@@\n-two\n+2\n*** End Patch\nEOF\ncat b"})),
		rawCall("delete_file", `{"path":"a"}`),
		rawCall("update_plan", `{"plan":[{"step":"x","status":"done"}]}`),
		stop,
	))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "2\n", "c": "x\n", "d": "x\n", "e": "five\n"}, filesIn(t, dir))
	said := agent.History().Messages()
	first := said[3].Text()
	for _, part := range []string{"[read a]\n", "1\tone", "\n[write c]\n", "\n[write d]\n", "\n[$ exit 3]\n", "exit"} {
		require.Contains(t, first, part)
	}
	require.Equal(t, pygent.OutcomeFailed, agent.History().Entries()[3].Outcome)
	require.Contains(t, said[5].Text(), "[read b]\n")
	require.Contains(t, said[7].Text(), "created e with 5 bytes")
	require.Contains(t, said[9].Text(), "[$ cat b]\n$ cat b\n2")
	require.Equal(t, "noted", said[13].Text())
	require.Equal(t, 10, result.ToolCalls-2)
}

func TestAPatchIsNoPatchWhereNothingCanBeEdited(t *testing.T) {
	t.Parallel()
	_, rt := workspaceWith(t, nil)
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(patchCalls(t)["a here-document"], stop), pygent.WithDisabledTools("edit_file"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, agent.History().Messages()[3].Text(), "apply_patch")
	require.Empty(t, agent.Changes())
}

// A call that stands for none, or whose first part stands for several, gets its results.
func TestACallOfNoCallsHasAResult(t *testing.T) {
	t.Parallel()
	patch := "*** Begin Patch\n*** Add File: new\n+1\n*** Add File: other\n+2\n*** End Patch"
	for name, tt := range map[string]struct {
		tool, args, want string
		files            map[string]string
	}{
		"moved to itself": {"apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: a\n*** Move to: a\n*** End Patch"}), "changes nothing", map[string]string{"a": "1\n"}},
		"and so written":  {"apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: a\n*** Move to: ./a\n*** End Patch"}), "changes nothing", map[string]string{"a": "1\n"}},
		"a patch first": {"multi_tool_use.parallel", jsonOf(t, map[string]any{"tool_uses": []any{
			map[string]any{"recipient_name": "functions.apply_patch", "parameters": map[string]any{"input": patch}},
		}}), "", map[string]string{"a": "1\n", "new": "1\n", "other": "2\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, map[string]string{"a": "1\n"})
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall(tt.tool, tt.args), pygenttest.Text("done")))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, tt.files, filesIn(t, dir))
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}

// Fifteen calls that fail in one answer are told before they end a run.
func TestCallsOfOneAnswerDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	var failing []pygenttest.Reply
	for i := range 16 {
		failing = append(failing, pygenttest.Call("download_file", map[string]any{"path": fmt.Sprint("none", i)}))
	}
	_, rt := workspaceWith(t, nil)
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(pygenttest.Calls(failing...), pygenttest.Text("They are not there.")))
	result, err := agent.RunUntilStop(t.Context(), "Read them.", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusReplied, result.Status)
}

func TestAPatchWithPathsOfTheWorkspaceThatBeginAtTheRoot(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "1\n", "old name": "2\n", "gone": ""})
	at := filepath.ToSlash(dir)
	patch := "*** Begin Patch\n*** Update File: " + at + "/a\n@@\n-1\n+one\n*** Update File: " + at + "/old name\n*** Move to: " + at + "/d/new é\n*** Delete File: " + at + "/gone\n*** End Patch"
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "one\n", "d/new é": "2\n"}, filesIn(t, dir), results(agent)[0])
}

// Who is asked about a second change of a file sees what both make of it.
func TestWhoIsAskedAboutAPatchSeesAllChangesOfAFile(t *testing.T) {
	t.Parallel()
	_, rt := workspaceWith(t, map[string]string{"a": "1\n2\n"})
	patch := "*** Begin Patch\n*** Update File: a\n@@\n-1\n+one\n*** Update File: a\n@@\n one\n-2\n+two\n*** End Patch"
	var diffs []string
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			for _, c := range r.Changes {
				diffs = append(diffs, c.After+c.Note)
			}
			return pygent.Decision{Allow: true}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"one\ntwo\n"}, diffs)
}

// A file that two paths of a patch lead to is one file.
func TestAPatchKnowsAFileByAllItsNames(t *testing.T) {
	t.Parallel()
	patch := "*** Begin Patch\n*** Add File: n\n+1\n*** Delete File: a\n*** Update File: link/a\n@@\n-x\n+y\n*** End Patch"
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "echo x >a && ln -s . link")
		agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Contains(t, results(agent)[0], "link/a: there is no such file")
		require.Equal(t, "a\nlink\n", bash(t, rt, "ls").Output)
	})
}

// Who is asked about a file that a patch renames and then changes sees the change.
func TestWhoIsAskedAboutAPatchSeesTheChangeOfARenamedFile(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "1\n2\n"})
	patch := "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Update File: b\n@@\n-1\n+one\n*** End Patch"
	var asked []string
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			for _, c := range r.Changes {
				asked = append(asked, c.Path+": "+c.After+c.Note)
			}
			return pygent.Decision{Allow: true}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a: one\n2\n"}, asked)
	require.Equal(t, map[string]string{"b": "one\n2\n"}, filesIn(t, dir))
}
