// A tool loop of four steps with a trained model: node tool_loop.mjs CLIENT_FOLDER BASE_URL
//
// The model looks a phone number up and sets a reminder with it, for one person and then for another. The tools
// are real functions here: what the second and the fourth call need is only in what the first and third returned.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, baseURL] = process.argv.slice(2);
const { default: OpenAI } = createRequire(join(folder, 'package.json'))('openai');
const client = new OpenAI({ baseURL, apiKey: 'none', timeout: 60_000 });
const { id: model } = (await client.models.list()).data[0];

const tool = (name, description, properties, required) => ({
  type: 'function',
  function: { name, description, parameters: { type: 'object', properties, required } },
});
const text = (description) => ({ type: 'string', description });
const tools = [
  tool('find_contact', 'Find a contact by name.', { name: text('name of the person') }, ['name']),
  tool('add_reminder', 'Create a reminder.', { title: text('short title'), time: text('time of day') }, [
    'title',
    'time',
  ]),
  tool('read_file', 'Read a file.', { path: text('path of the file') }, ['path']),
  tool('list_events', 'List the events of a day.', { date: text('the day') }, ['date']),
];
const request =
  'Look up the phone number of Eva Cruz and remind me at 09:30 to call it. ' +
  'Then do the same for Tom Berg at 14:00.';

// The address book and the reminders of one conversation.
function desk() {
  const phones = { 'Eva Cruz': '617-5579', 'Tom Berg': '386-7380' };
  const reminders = [];
  const functions = {
    find_contact: ({ name }) =>
      JSON.stringify(name in phones ? { name, phone: phones[name] } : { error: 'not found' }),
    add_reminder: (reminder) => reminders.push(reminder) && 'ok',
  };
  return { functions, reminders };
}

const ways = {
  async buffered(body) {
    const reply = await client.chat.completions.create(body);
    return reply.choices[0];
  },
  async streamed(body) {
    const reply = await client.chat.completions.stream(body).finalChatCompletion();
    return reply.choices[0];
  },
};

async function converse(ask, enable_thinking) {
  const { functions, reminders } = desk();
  const messages = [{ role: 'user', content: request }];
  const called = [];
  for (let step = 0; step < 8; ++step) {
    const { message, finish_reason } = await ask({
      model,
      messages,
      tools,
      temperature: 0,
      max_completion_tokens: 400,
      chat_template_kwargs: { enable_thinking },
    });
    messages.push(message);
    if (finish_reason !== 'tool_calls') return { called, reminders, answer: message.content, finish_reason };
    for (const { id, function: call } of message.tool_calls) {
      called.push(call.name);
      messages.push({ role: 'tool', tool_call_id: id, content: functions[call.name](JSON.parse(call.arguments)) });
    }
  }
  throw new Error(`no answer after ${called}`);
}

let failures = 0;
for (const [way, ask] of Object.entries(ways)) {
  for (const thinking of [false, true]) {
    const name = `${way}, ${thinking ? 'with' : 'without'} thinking`;
    try {
      const { called, reminders, answer, finish_reason } = await converse(ask, thinking);
      assert.deepEqual(called, ['find_contact', 'add_reminder', 'find_contact', 'add_reminder']);
      assert.deepEqual(reminders, [
        { title: 'call 617-5579', time: '09:30' },
        { title: 'call 386-7380', time: '14:00' },
      ]);
      assert.equal(finish_reason, 'stop');
      assert.match(answer, /^Done[.:]/);
      console.log(`ok: ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED: ${name}: ${error.stack}`);
    }
  }
}
process.exit(failures === 0 ? 0 : 1);
