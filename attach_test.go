package pygent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

const (
	pngFile = "\x89PNG\r\n\x1a\nrest"
	pdfFile = "%PDF-1.7\nrest"
)

func TestFilesBecomeParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, content string
		want          pygent.Part
	}{
		"image":         {"a.txt", pngFile, pygent.Part{ImageURL: "data:image/png;base64,iVBORw0KGgpyZXN0"}},
		"jpeg":          {"a", "\xff\xd8\xff", pygent.Part{ImageURL: "data:image/jpeg;base64,/9j/"}},
		"gif":           {"a", "GIF89a", pygent.Part{ImageURL: "data:image/gif;base64,R0lGODlh"}},
		"webp":          {"a", "RIFF\x00\x00\x00\x00WEBPVP8 ", pygent.Part{ImageURL: "data:image/webp;base64,UklGRgAAAABXRUJQVlA4IA=="}},
		"PDF":           {"dir/report.pdf", pdfFile, pygent.Part{FileName: "report.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}},
		"WAV":           {"a", "RIFF\x00\x00\x00\x00WAVEfmt ", pygent.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="}},
		"MP3":           {"a", "ID3\x04", pygent.Part{AudioURL: "data:audio/mpeg;base64,SUQzBA=="}},
		"MP3, no tag":   {"a", "\xff\xfb\x90\x00", pygent.Part{AudioURL: "data:audio/mpeg;base64,//uQAA=="}},
		"text":          {"dir/main.go", "package main\n", pygent.Part{Text: "The file dir/main.go:\n```\npackage main\n```"}},
		"empty":         {"empty", "", pygent.Part{Text: "The file empty:\n```\n\n```"}},
		"fences inside": {"a.md", "```go\n````\n", pygent.Part{Text: "The file a.md:\n`````\n```go\n````\n`````"}},
		"odd name":      {"a\nb", "x", pygent.Part{Text: "The file \"a\\nb\":\n```\nx\n```"}},
		"HTML":          {"a.html", "<html>", pygent.Part{Text: "The file a.html:\n```\n<html>\n```"}},
		"SVG is text":   {"a.svg", "<svg/>", pygent.Part{Text: "The file a.svg:\n```\n<svg/>\n```"}},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := chat.FilePart(test.file, []byte(test.content))
			require.NoError(t, err)
			require.Equal(t, test.want, part)
		})
	}
	for name, test := range map[string]struct{ content, want string }{
		"binary":         {"\x7fELF\x00\x01", "f: neither text in UTF-8 nor an image, a PDF file or a recording (application/octet-stream)"},
		"not UTF-8":      {"caf\xe9", "f: neither text in UTF-8 nor an image, a PDF file or a recording (text/plain; charset=utf-8)"},
		"large text":     {strings.Repeat("x", 256<<10+1), "f: a message takes a text of at most 262144 bytes"},
		"large image":    {pngFile + strings.Repeat("x", 5<<20), "f: a message takes an image of at most 5242880 bytes"},
		"large PDF":      {pdfFile + strings.Repeat("x", 16<<20), "f: a message takes a PDF file of at most 16777216 bytes"},
		"large WAV":      {"RIFF\x00\x00\x00\x00WAVEfmt " + strings.Repeat("x", 16<<20), "f: a message takes a recording of at most 16777216 bytes"},
		"archive":        {"PK\x03\x04\x00", "f: neither text in UTF-8 nor an image, a PDF file or a recording (application/zip)"},
		"bitmap, no PNG": {"BM\x00\x00", "f: neither text in UTF-8 nor an image, a PDF file or a recording (image/bmp)"},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := chat.FilePart("f", []byte(test.content))
			require.EqualError(t, err, test.want)
			require.Empty(t, part)
		})
	}
}

func TestAttachReadsRegularFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, image := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(text, []byte("hello\n"), 0o600))
	require.NoError(t, os.WriteFile(image, []byte(pngFile), 0o600))
	parts, err := chat.Attach(text, image)
	require.NoError(t, err)
	require.Len(t, parts, 2)
	require.Contains(t, parts[0].Text, "hello")
	require.NotEmpty(t, parts[1].ImageURL)

	_, err = chat.Attach(text, dir)
	require.EqualError(t, err, "attach "+dir+": not a regular file")
	_, err = chat.Attach(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, strings.TrimPrefix(err.Error(), "attach "+dir), dir, "the path is said once")

	sparse := filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	require.NoError(t, os.Truncate(sparse, 1<<40))
	_, err = chat.Attach(sparse)
	require.ErrorContains(t, err, "a message takes a text of at most")
}

func TestPartsGoWithTheMessageFromEveryEntryPoint(t *testing.T) {
	t.Parallel()
	image, err := chat.FilePart("a.png", []byte(pngFile))
	require.NoError(t, err)
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	for name, start := range map[string]func(a *pygent.Agent, msg string, opts ...pygent.RunOption) error{
		"Step": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			_, err := a.Step(t.Context(), msg, o...)
			return err
		},
		"RunUntilStop": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			_, err := a.RunUntilStop(t.Context(), msg, o...)
			return err
		},
		"Events": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			for _, err := range a.Events(t.Context(), msg, o...) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(pygenttest.Call("stop", map[string]any{})).Loop()
			agent := newAgent(t, model)
			require.NoError(t, start(agent, "What is this?", pygent.WithParts(image), pygent.WithParts(pdf)))
			require.NoError(t, start(agent, "", pygent.WithParts(image)))
			messages := agent.History().Messages()
			require.Equal(t, []pygent.Part{{Text: "What is this?"}, image, pdf}, messages[1].Parts)
			require.Equal(t, chat.UserMessage("", image).Parts, messages[4].Parts)
			require.True(t, model.Requests()[1].Messages[1].HasImages())
		})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("hi")))
	require.NoError(t, agent.History().Append(chat.UserMessage("hello")))
	_, err = agent.Resume(t.Context(), pygent.WithParts(image))
	require.EqualError(t, err, "option WithParts: a resumed run has no new message")
}

func TestPartsAreNoOptionOfAnAgent(t *testing.T) {
	t.Parallel()
	_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithParts(pygent.Part{Text: "x"}))
	require.EqualError(t, err, "option WithParts is for one run, not for an agent")
}

func TestFilesAreSentAsTheServerTakesThem(t *testing.T) {
	t.Parallel()
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	for api, want := range map[openai.Protocol]string{
		openai.Chat:      `{"type":"file","file":{"file_data":"` + pdf.FileURL + `","filename":"b.pdf"}}`,
		openai.Responses: `{"type":"input_file","filename":"b.pdf","file_data":"` + pdf.FileURL + `"}`,
	} {
		s := pygenttest.NewServer(t, pygenttest.Text("ok"))
		m := testkit.NewModel(t, openai.BaseURL(s.URL()), openai.API(api))
		_, err := m.Chat(t.Context(), &pygent.ChatRequest{Messages: []pygent.Message{chat.UserMessage("Read this.", pdf)}})
		require.NoError(t, err)
		require.Contains(t, string(s.Requests()[0].Body), want)
	}
}

func TestAPartSurvivesJSON(t *testing.T) {
	t.Parallel()
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	data, err := json.Marshal(chat.UserMessage("", pdf))
	require.NoError(t, err)
	var back pygent.Message
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, pdf.FileURL, back.Parts[0].FileURL)
	back.Parts[0].FileName = "c.pdf"
	data, err = json.Marshal(back)
	require.NoError(t, err)
	require.Contains(t, string(data), `"filename":"c.pdf"`)
}

// It took 22 seconds when the fence grew by one at a time.
func TestAFileOfBackticksIsQuoted(t *testing.T) {
	t.Parallel()
	fences := strings.Repeat("`", 256<<10)
	part, err := chat.FilePart("a.md", []byte(fences))
	require.NoError(t, err)
	require.Equal(t, "The file a.md:\n`"+fences+"\n"+fences+"\n`"+fences, part.Text)
}

func TestRecordingsInOtherWords(t *testing.T) {
	t.Parallel()
	for url, format := range map[string]string{
		"data:audio/wave;base64,AAAA": "wav", "data:audio/x-wav;base64,AAAA": "wav", "data:audio/mpeg;base64,AAAA": "mp3", "data:audio/ogg;base64,AAAA": "ogg",
	} {
		data, err := json.Marshal(pygent.Part{AudioURL: url})
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"input_audio","input_audio":{"data":"AAAA","format":"`+format+`"}}`, string(data))
	}
}

func TestRecordingsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"RIFF\x00\x00\x00\x00WAVEfmt ", "ID3\x04"} {
		part, err := chat.FilePart("a", []byte(file))
		require.NoError(t, err)
		data, err := json.Marshal(chat.UserMessage("", part))
		require.NoError(t, err)
		require.Contains(t, string(data), `"type":"input_audio"`)
		require.NotContains(t, string(data), "data:", "the API wants the data alone")
		var back pygent.Message
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, part.AudioURL, back.Parts[0].AudioURL)
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(again))
	}
}

func TestRecordingsOfAnotherFormAreKept(t *testing.T) {
	t.Parallel()
	for _, part := range []string{`{"type":"input_audio","input_audio":"id_1"}`, `{"type":"input_audio","input_audio":null}`, `{"type":"input_audio","input_audio":{"data":7}}`} {
		var p pygent.Part
		require.NoError(t, json.Unmarshal([]byte(part), &p), part)
		require.Empty(t, p.AudioURL)
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.JSONEq(t, part, string(data))
	}
}

func TestARecordingThatCannotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://example.com/a.wav", "data:audio/wav,abc", "data:audio/wav;base64,", "data:image/png;base64,AAAA"} {
		agent := newAgent(t, pygenttest.NewScriptedModel())
		_, err := agent.RunUntilStop(t.Context(), "What is said?", pygent.WithParts(pygent.Part{AudioURL: url}))
		require.ErrorContains(t, err, "want a recording as a URL that begins with data:audio/ and has base64")
		require.Zero(t, agent.History().Len(), "the next run can be sent")
	}
}

func TestAMessageTakesTheFilesAlongThatItMentions(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for name, content := range map[string]string{
		"main.go": "package main\n", "a b.txt": "blank\n", "pic.png": pngFile, "dir/inside.txt": "x", "program": "\x7fELF\x00\x01",
		"large.txt": strings.Repeat("x", 256<<10+1), "large.png": pngFile + strings.Repeat("x", 300<<10), "huge.png": pngFile + strings.Repeat("x", 6<<20),
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(ws, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(ws, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(ws, "out")))
	agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel())

	for text, want := range map[string]string{
		"nothing, ada@example.org":     "",
		"see @main.go, and @./main.go": "main.go: The file main.go:",
		`@"a b.txt"!`:                  "a b.txt: The file a b.txt:",
		"@dir":                         "dir/: dir: a directory with 1 entry",
		"@pic.png @large.png":          "pic.png: data:image/png;base64 large.png: data:image/png;base64",
		"@program":                     "program: The content of the file program does not go along: it is no text, image, PDF file or recording that can (6 B). Look at it with your tools.",
		"@large.txt":                   "large.txt: The content of the file large.txt does not go along: it is too large (262.1 kB). Look at it with your tools.",
		"@huge.png":                    "huge.png: The content of the file huge.png does not go along: it is no text,",
		`@"main.go " @.\main.go @file://` + ws + "/main.go": "main.go: The file main.go:",
		"@~/main.go @file:///etc/passwd":                    "missing ~/main.go file:///etc/passwd",
		"@none.txt @ada @out @../x\x1bz":                    `missing none.txt ada out "../x\x1bz"`,
	} {
		parts, missing, err := agent.AttachMentioned(t.Context(), text)
		require.NoError(t, err, text)
		var got []string
		for _, p := range parts {
			head, _, _ := strings.Cut(p.Text+p.ImageURL, ",iVBOR")
			got = append(got, p.FileName+": "+head)
		}
		if len(missing) > 0 {
			got = append(got, "missing "+strings.Join(missing, " "))
		}
		require.True(t, strings.HasPrefix(strings.Join(got, " "), want) && (want != "" || got == nil), "%s: %q", text, got)
	}
}

func TestAPlainSessionTakesFilesAlong(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(ws, "main.go"), []byte("package main\n"), 0o600))
	const message = "read @main.go and @none.go"
	for name, test := range map[string]struct {
		first pygent.Message
		input string
		said  string
	}{
		"typed":         {pygent.Message{}, message + "\n", message + "The file main.go:\n```\npackage main\n```"},
		"given":         {chat.UserMessage(message), "", message + "The file main.go:\n```\npackage main\n```"},
		"given in part": {chat.UserMessage("", pygent.Part{Text: message}), "", message},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel(pygenttest.Text("It is short.")),
				pygent.WithIO(strings.NewReader(test.input), &out), pygent.WithFirstMessage(test.first))
			require.NoError(t, agent.RunInteractive(t.Context()))
			_, shown, _ := strings.Cut(out.String(), "\n")
			if test.said != message {
				require.Equal(t, "(with main.go)\n! not in the workspace: none.go\nIt is short.\n", shown)
			}
			require.Equal(t, []string{test.said}, users(agent))
		})
	}
}

func TestAPlainSessionTakesDraggedImagesAlong(t *testing.T) {
	t.Parallel()
	pic := filepath.Join(t.TempDir(), "My Shot.png")
	require.NoError(t, os.WriteFile(pic, []byte(pngFile), 0o600))
	text := filepath.Join(filepath.Dir(pic), `My\ Shot.png`)
	if filepath.Separator != '/' {
		text = `"` + pic + `"`
	}
	var out strings.Builder
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Nice.")), pygent.WithIO(strings.NewReader(text+" what is this\n"), &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "(with "+pic+")")
	said := agent.History().Messages()[1]
	require.True(t, strings.HasPrefix(said.Parts[1].ImageURL, "data:image/png;base64,"))
}

// runtimeIn is a local runtime with a workspace that exists.
func runtimeIn(t *testing.T, ws string) pygent.Runtime {
	t.Helper()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(ws))
	require.NoError(t, err)
	return rt
}
